// What the fused encoder keeps of streams between steps.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/checkpoint/config.h"
#include "models/encoder/fused/kernels.h"

namespace rtfx {

/// For each layer and stream the frames that a step still sees and those of the step itself, as
/// rings: a step writes its own frames and moves none. LayerRings (kernels.h) says where frame f
/// is.
struct StreamRings {
  /// Of `streams` streams whose steps have `frames` frames, of an encoder that sees nothing behind
  /// a step and config.left_context frames before it.
  StreamRings(const EncoderConfig& config, int64_t streams, int64_t frames,
              const at::TensorOptions& options);

  /// Of a step of the streams in slots [B] int64, which have encoded [B] int64 frames behind them.
  LayerRings layer(int64_t index, const at::Tensor& slots, const at::Tensor& encoded) const;

  at::Tensor keys_values;  // [layers, streams, left context + frames, 2 d]
  at::Tensor gated;        // [layers, streams, kernel - 1 + frames, d]
  int64_t frames;
};

}  // namespace rtfx
