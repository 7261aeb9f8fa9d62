// The encoder on a GPU in 16-bit or 8-bit floats, by kernels that do not move data without need.
//
// It computes what ReferenceEncoder does, with other roundings. The frames of all utterances are
// the rows of one matrix without padding. A layer is eight matrix products (cuBLASLt, which adds
// biases and residuals) with eight kernels between them (kernels.h). Products of few rows may be
// split, and the norms behind them add the parts. Attention keeps no scores in
// memory (Dao et al. 2022), so its memory grows with the number of frames, not with its square.
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

/// Rings of frames for each layer and stream: the frames that a step still sees, and its own. A
/// step writes its own frames and moves none. LayerRings (kernels.h) says where frame f is.
struct StreamRings {
  /// Makes rings for `streams` streams whose steps have `frames` frames. The encoder sees nothing
  /// behind a step, and config.left_context frames before it.
  StreamRings(const EncoderConfig& config, int64_t streams, int64_t frames,
              const at::TensorOptions& options);

  /// The rings for a step of the streams in slots [B] int64, of which encoded [B] int64 frames are
  /// done.
  LayerRings layer(int64_t index, const at::Tensor& slots, const at::Tensor& encoded) const;

  at::Tensor keys_values;  // [layers, streams, left context + frames, 2 d]
  at::Tensor gated;        // [layers, streams, kernel - 1 + frames, d]
  int64_t frames;
};

class FusedEncoder : public EncoderImplementation {
 public:
  /// Why an encoder cannot be fused, as the end of "the fused encoder knows no ..."; empty if it
  /// can.
  static std::string missing(const EncoderConfig& config);

  /// `reader` gives the weights below "encoder.", and the device and dtype (bfloat16 or float16) of
  /// the frames. With `eight_bits`, some products are in e4m3 with a scale for each row and each
  /// output. These are the products of the feed-forward layers, of attention's input, and of the
  /// first half of the convolution module. A row's scale follows from its largest value (W8A8
  /// without calibration).
  FusedEncoder(const EncoderConfig& config, int64_t mel_bins, const WeightReader& reader,
               bool eight_bits);

  Encoded operator()(const Features& features) const override;
  int64_t rows(int64_t utterances, int64_t feature_frames,
               const std::vector<int64_t>& host_lengths) const override;

  /// The type of frames: bfloat16 or float16.
  at::ScalarType dtype() const { return dtype_; }

  /// The next chunks of streams.
  struct Chunks {
    at::Tensor features;    // [B, M, T] float32, what Subsampling::part() wants
    at::Tensor begin, end;  // [B] int64, likewise
    int64_t dropped;        // first encoder frames of these that are not wanted
    at::Tensor slots;       // [B] int64: the streams' places in the rings
    at::Tensor encoded;     // [B] int64: frames that they have had before
  };
  /// -> [B, rings.frames, D]; a row's frames beyond its end are anything. For encoders that can be
  /// streamed by caches (models/streaming/cached_encoder.h). Enqueues; does not wait.
  at::Tensor forward_step(const Chunks& chunks, const StreamRings& rings) const;
  /// Frames that attention can see at the most, with those of the step, in forward_step().
  static constexpr int64_t kMostAttended = kReadyPositions;

 private:
  /// From the first layer on: frames [rows, d] -> [B, T', D]. `rings`: of streams, for each layer;
  /// empty for whole utterances.
  at::Tensor through_layers(const at::Tensor& frames, const BatchRows& batch,
                            const std::vector<LayerRings>& rings) const;

  EncoderConfig config_;
  FusedFrontEnd front_end_;
  std::vector<FusedLayer> layers_;
  std::optional<Linear> out_;  // behind the last layer
  at::ScalarType dtype_;
  bool eight_bits_;
};

}  // namespace rtfx
