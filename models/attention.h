// Multi-head self-attention with relative positions (Dai et al. 2019), full or limited context.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/weight_reader.h"

namespace rtfx {

/// Sinusoidal embeddings of the relative positions of `frames` frames to each other, frames - 1 to
/// -(frames - 1): [2 frames - 1, width]; positive = key to the left of the query. Computed in
/// float32 on the device of `options`, then cast to its dtype. Does not synchronise.
at::Tensor relative_positions(int64_t frames, int64_t width, const at::TensorOptions& options);

/// scores [..., Q, P] over relative positions, descending from `Q - 1 - k0` for key k0 = 0, become
/// scores [..., Q, keys]: element (i, j) is column Q - 1 - i + j. A strided view, no copy.
at::Tensor relative_shift(const at::Tensor& scores, int64_t keys);

class Attention {
 public:
  Attention(const EncoderConfig& config, const WeightReader& reader);

  /// x [B, T', d], key_mask [B, T'] bool (true = a frame of the utterance), positions as
  /// relative_positions(T', d) gives them, like x -> [B, T', d].
  /// Limited context (left, right) is evaluated in blocks of queries: memory grows with T' times
  /// the context instead of T' squared.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& key_mask,
                        const at::Tensor& positions) const;

 private:
  struct Block {
    int64_t query, queries, key, keys;
  };
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const at::Tensor& key_mask, const at::Tensor& positions,
                    const Block& block) const;

  int64_t heads_, head_width_, left_, right_;
  at::Tensor qkv_weight_, qkv_bias_, out_weight_, out_bias_, position_weight_;
  at::Tensor bias_u_, bias_v_;  // [H, 1, dk]
};

}  // namespace rtfx
