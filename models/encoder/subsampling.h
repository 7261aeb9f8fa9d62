// Sub-samples feature frames to encoder frames, by strided convolutions or by stacking. Also
// reduces the number of encoder frames later.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <variant>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/encoder/features.h"

namespace rtfx {

/// Sub-sampling by dw_striding (FastConformer) or striding (Conformer), each also in a causal form.
class Subsampling {
 public:
  Subsampling(const EncoderConfig& config, int64_t mel_bins, const WeightReader& pre_encode);

  struct Output {
    at::Tensor frames;   // [B, T', d]
    at::Tensor lengths;  // [B] int64
  };

  /// Maps features [B, M, T] float32 to [B, convolved(T), d] in the weights' dtype, scaled by
  /// sqrt(d) where the model asks for it. Padding is zeroed before every convolution.
  Output operator()(const Features& features) const;
  /// Sub-samples a part of longer utterances, [B, M, T] -> [B, convolved(T), d]. The frames
  /// [begin[b], end[b]) ([B] int64) of row b belong to the utterance. Frames before and after them
  /// are treated as the padding of a whole utterance. If an utterance began before this part, its
  /// begin is 0. Its first frames are then wrong, as far as the kernels reach back. begin is a
  /// multiple of the factor, and the convolutions are causal.
  at::Tensor part(const at::Tensor& values, const at::Tensor& begin, const at::Tensor& end) const;
  /// Computes EncoderConfig::subsampled() on the device.
  at::Tensor subsampled(const at::Tensor& lengths) const;

 private:
  struct Convolution {
    at::Tensor weight, bias;
    int64_t stride = 2, groups = 1;
    bool relu = true;  // false between a depthwise convolution and its pointwise one
  };

  /// `begin` is undefined where all rows begin at 0.
  at::Tensor convolve(at::Tensor image, at::Tensor begin, const at::Tensor& lengths) const;
  at::Tensor flattened(const at::Tensor& image) const;
  at::Tensor halved(const at::Tensor& lengths) const;

  std::vector<Convolution> convolutions_;
  at::Tensor out_weight_, out_bias_;
  bool causal_;
  int64_t largest_image_;  // elements of the first convolution's output per feature frame
};

/// Applies a layer norm to each frame where the model has one, concatenates `factor` frames to one,
/// and applies a linear map.
class Stacking {
 public:
  Stacking(const EncoderConfig& config, const WeightReader& encoder);

  /// Maps features [B, M, T] float32 to [B, max(1, floor(T / factor)), d], like Subsampling.
  Subsampling::Output operator()(const Features& features) const;
  at::Tensor subsampled(const at::Tensor& lengths) const;

 private:
  int64_t factor_;
  at::Tensor norm_weight_, norm_bias_, out_weight_, out_bias_;
};

using FrontEnd = std::variant<Subsampling, Stacking>;

/// `encoder` gives the weights below "encoder.".
FrontEnd make_front_end(const EncoderConfig& config, int64_t mel_bins, const WeightReader& encoder);

/// Returns [B, T] bool: true for frames below the row's length.
at::Tensor frame_mask(const at::Tensor& lengths, int64_t frames);

/// Reduces the number of frames once more between two layers or after the last: NeMo's
/// SubsamplingReductionModule.
class Reduction {
 public:
  /// `encoder` gives the weights below "encoder.".
  Reduction(const EncoderConfig& config, const WeightReader& encoder);

  /// Maps frames [B, T', d] and lengths [B] to [B, T' / factor, d] (at least one frame) and
  /// EncoderConfig::reduced(). Pooling takes the maximum of each channel and drops an incomplete
  /// last group of frames. Frames beyond NeMo's lengths lie after a row's end.
  Subsampling::Output operator()(const at::Tensor& frames, const at::Tensor& lengths) const;

 private:
  int64_t factor_;
  std::optional<Subsampling> convolutions_;  // empty: the reduction is by pooling
};

}  // namespace rtfx
