// The encoder on a GPU in 16-bit or 8-bit floats, by kernels that do not move data without need.
//
// It computes the same as ReferenceEncoder, with other roundings. The frames of all utterances are
// the rows of one matrix without padding. A layer has eight matrix products (cuBLASLt, which adds
// biases and residuals) with eight kernels between them (kernels.h). Products of few rows may be
// split, and the following norms add the parts. Attention keeps no scores in memory (Dao et al.
// 2022). Its memory therefore grows with the number of frames, not with its square.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "models/checkpoint/config.h"
#include "models/encoder/encoder_interface.h"
#include "models/encoder/fused/front_end.h"
#include "models/encoder/fused/fused_layer.h"
#include "models/encoder/fused/kernels.h"

namespace rtfx {

/// Rings of frames for each layer and stream. A ring holds the frames of a step, and the earlier
/// ones that the step still sees. A step writes its own frames and moves none. LayerRings
/// (kernels.h) says where frame f is.
struct StreamRings {
  /// Makes rings for `streams` streams whose steps have `frames` frames. The encoder sees
  /// config.left_context frames before a step, and no frame after it.
  StreamRings(const EncoderConfig& config, int64_t streams, int64_t frames,
              const at::TensorOptions& options);

  /// Returns the rings of a layer for a step. The streams are in slots [B] int64, and encoded [B]
  /// int64 of their frames are done.
  LayerRings layer(int64_t index, const at::Tensor& slots, const at::Tensor& encoded) const;

  at::Tensor keys_values;  // [layers, streams, left context + frames, 2 d]
  at::Tensor gated;        // [layers, streams, kernel - 1 + frames, d]
  int64_t frames;
};

class FusedEncoder : public EncoderImplementation {
 public:
  /// Returns why an encoder cannot be fused, as the end of "the fused encoder knows no ...".
  /// Returns an empty text if it can.
  static std::string missing(const EncoderConfig& config);

  /// `reader` gives the weights below "encoder.", and the device and dtype (bfloat16 or float16) of
  /// the frames. With `eight_bits`, six of the eight products of a layer are in e4m3 with a scale
  /// for each row and each output. These are the products of the feed-forward layers, of
  /// attention's input, and of the first half of the convolution module. A row's scale follows from
  /// its largest value (W8A8 without calibration).
  FusedEncoder(const EncoderConfig& config, int64_t mel_bins, const WeightReader& reader,
               bool eight_bits);

  Encoded operator()(const Features& features) const override;
  int64_t rows(int64_t utterances, int64_t feature_frames,
               const std::vector<int64_t>& host_lengths) const override;

  /// Returns the type of frames: bfloat16 or float16.
  at::ScalarType dtype() const { return dtype_; }

  /// The next chunks of streams.
  struct Chunks {
    at::Tensor features;    // [B, M, T] float32, argument of Subsampling::part()
    at::Tensor begin, end;  // [B] int64, arguments of Subsampling::part()
    int64_t dropped;        // number of first encoder frames of these chunks to drop
    at::Tensor slots;       // [B] int64: the slots of the streams in the rings
    at::Tensor encoded;     // [B] int64: frames that the streams had before
  };
  /// Encodes the next chunks -> [B, rings.frames, D]. A row's frames beyond its end have any value.
  /// Works for encoders that can be streamed with caches (models/streaming/cached_encoder.h).
  /// Enqueues and does not wait.
  at::Tensor forward_step(const Chunks& chunks, const StreamRings& rings) const;
  /// The largest number of frames that attention can see in forward_step(), including those of the
  /// step.
  static constexpr int64_t kMostAttended = kReadyPositions;

 private:
  /// Runs the layers and all that follows: frames [rows, d] -> [B, T', D]. `rings` are those of
  /// streams, one for each layer. For whole utterances, it is empty.
  at::Tensor through_layers(const at::Tensor& frames, const BatchRows& batch,
                            const std::vector<LayerRings>& rings) const;

  EncoderConfig config_;
  FusedFrontEnd front_end_;
  std::vector<FusedLayer> layers_;
  std::optional<Linear> out_;  // map after the last layer
  at::ScalarType dtype_;
  bool eight_bits_;
};

}  // namespace rtfx
