// The encoder by LibTorch's operators, one for each line of the model. It runs on CPUs, and tests
// compare other implementations with it.
#pragma once

#include <optional>
#include <vector>

#include "models/encoder/conformer_layer.h"
#include "models/encoder/encoder_interface.h"
#include "models/encoder/subsampling.h"

namespace rtfx {

class ReferenceEncoder : public EncoderImplementation {
 public:
  /// `reader` gives the weights below "encoder.".
  ReferenceEncoder(const EncoderConfig& config, int64_t mel_bins, const WeightReader& reader);

  Encoded operator()(const Features& features) const override;
  int64_t rows(int64_t utterances, int64_t feature_frames,
               const std::vector<int64_t>& host_lengths) const override;

  /// The following functions give parts of the encoder, for encoding streams (models/streaming).
  /// convolutions() is null where the front end is no convolution. mapped() applies the linear map
  /// after the last layer, where there is one.
  const Subsampling* convolutions() const { return std::get_if<Subsampling>(&front_end_); }
  const std::vector<ConformerLayer>& layers() const { return layers_; }
  at::Tensor mapped(const at::Tensor& frames) const;

 private:
  Encoded subsample(const Features& features) const;
  Encoded reduce(const Encoded& encoded) const;
  FrameMasks masks_of(const Encoded& encoded) const;
  at::Tensor positions(const at::Tensor& frames) const;
  at::Tensor norm_mask(const at::Tensor& feature_lengths, int64_t frames) const;

  EncoderConfig config_;
  /// Feature frames after a row's end that count in norms over time. In NeMo's tensor, they are the
  /// frame of the last window, or the frames that fill a stack. They are no frames of the
  /// utterance.
  int64_t silence_;
  FrontEnd front_end_;
  std::vector<ConformerLayer> layers_;
  std::optional<Reduction> reduction_;
  at::Tensor out_weight_, out_bias_;
};

}  // namespace rtfx
