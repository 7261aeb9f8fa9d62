// The state of streams that the fused encoder keeps between steps.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/checkpoint/config.h"
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

}  // namespace rtfx
