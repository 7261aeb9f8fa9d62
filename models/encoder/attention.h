// Multi-head self-attention: with relative positions (Dai et al. 2019) or none of its own, over all
// frames, a window or chunks, and with global frames (Beltagy et al. 2020).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Sinusoidal embeddings of the relative positions of `frames` frames to each other, frames - 1 to
/// -(frames - 1): [2 frames - 1, width]; positive = key to the left of the query. Computed in
/// float32 on the device of `options`, then cast to its dtype. Does not synchronise.
at::Tensor relative_positions(int64_t frames, int64_t width, const at::TensorOptions& options);

/// relative_positions() as NeMo's local attention has it for a window [left, right]: the same where
/// the sides are equal. Where they are not, NeMo adds the biases of its left + right + 1 positions
/// to the outermost columns of 2 max(left, right) + 1. So a distance gets another one's position,
/// or none (zeros). Rows of distances beyond the window do not matter.
at::Tensor local_positions(int64_t frames, int64_t width, int64_t left, int64_t right,
                           const at::TensorOptions& options);

/// relative_positions() or local_positions(), as the encoder has them.
at::Tensor positions_for(const EncoderConfig& config, int64_t frames,
                         const at::TensorOptions& options);

/// Sinusoidal embeddings of the positions 0 to frames - 1: [frames, width].
at::Tensor absolute_positions(int64_t frames, int64_t width, const at::TensorOptions& options);

/// scores [..., Q, P] over relative positions, descending from `Q - 1 - k0` for key k0 = 0, become
/// scores [..., Q, keys]: element (i, j) is column Q - 1 - i + j. A strided view, no copy.
at::Tensor relative_shift(const at::Tensor& scores, int64_t keys);

/// Large enough that exp() of it is zero in every dtype, finite so that a row without any key gives
/// a mean instead of NaN.
constexpr double kMaskedScore = -1e4;

/// Without positions: those of its input are all that it knows.
class Attention {
 public:
  Attention(const EncoderConfig& config, const WeightReader& reader);
  virtual ~Attention() = default;

  /// x [B, T', d], key_mask [B, T'] bool (true = a frame of the utterance), positions as
  /// relative_positions(T', d) or local_positions() gives them, like x -> [B, T', d].
  /// A limited context is evaluated in blocks of queries, whole chunks each: memory grows with T'
  /// times the context instead of T' squared.
  virtual at::Tensor operator()(const at::Tensor& x, const at::Tensor& key_mask,
                                const at::Tensor& positions) const;

  /// The C frames before those that are asked about.
  struct Past {
    at::Tensor keys, values;  // [B, H, C, dk]
  };

  /// The next n frames of longer rows, x [B, n, d] -> [B, n, d]. Each of them sees those of the C
  /// before and of the n that key_mask [B, C + n] lets it see. A chunk sees these, where C is its
  /// left context. `position_keys`: position_keys(C, n). `past` becomes that of the frames behind
  /// these. Does not synchronise.
  at::Tensor forward_step(const at::Tensor& x, Past& past, const at::Tensor& key_mask,
                          const at::Tensor& position_keys) const;
  /// The position keys that forward_step() reads, made once for n queries behind C frames.
  virtual at::Tensor position_keys(const EncoderConfig& config, int64_t past, int64_t count) const;

 protected:
  /// Queries and the keys that any of them sees.
  struct Block {
    int64_t query, queries, key, keys;
  };
  struct Heads {
    at::Tensor q, k, v;  // [B, H, T', dk]
  };

  Heads project(const at::Tensor& x) const;
  std::vector<Block> blocks(int64_t frames) const;
  /// Contexts [B, H, queries, dk] of the blocks -> [B, T', d].
  at::Tensor merge(const std::vector<at::Tensor>& contexts) const;

  /// The bias of a block's scores, [B, H or 1, queries, keys]: a large negative number where a
  /// query does not see a key.
  at::Tensor bias(const Heads& heads, const at::Tensor& key_mask, const at::Tensor& positions,
                  const Block& block) const;
  /// The bias from queries [B, H, queries, dk], projected() positions and visible().
  virtual at::Tensor bias(const at::Tensor& query, const at::Tensor& position_keys,
                          const at::Tensor& seen) const;
  /// Rows of relative_positions() [P, d] as scores take them; undefined without positions.
  virtual at::Tensor projected(const at::Tensor& positions) const;
  /// A block's queries [B, H, queries, dk] as their product with the keys takes them.
  virtual at::Tensor biased(const at::Tensor& query) const { return query; }

  /// Whether a query sees a key: bool [B, 1, 1 or queries, keys].
  at::Tensor visible(const at::Tensor& key_mask, const Block& block) const;

  int64_t heads_, head_width_;
  double scale_;  // of scores

 private:
  int64_t left_, right_, chunk_;
  at::Tensor qkv_weight_, qkv_bias_, out_weight_, out_bias_;
};

/// Transformer-XL's: positions of keys relative to the query, and a bias of each head for both.
class RelativeAttention : public Attention {
 public:
  RelativeAttention(const EncoderConfig& config, const WeightReader& reader);

  at::Tensor position_keys(const EncoderConfig& config, int64_t past, int64_t count) const override;

 protected:
  using Attention::bias;
  at::Tensor bias(const at::Tensor& query, const at::Tensor& position_keys,
                  const at::Tensor& seen) const override;
  at::Tensor projected(const at::Tensor& positions) const override;  // [H, dk, P]
  at::Tensor biased(const at::Tensor& query) const override;

 private:
  at::Tensor position_weight_;
  at::Tensor bias_u_, bias_v_;  // [H, 1, dk]
};

/// Local attention with a few frames that all others see and that see all others (Longformer), as
/// NeMo has it. The frames 0, s, 2 s, ... are global, G of them (EncoderConfig::global_tokens and
/// global_tokens_spacing), as far as a row reaches.
///
/// Every query has the global frames as keys besides its window, and twice where they lie in it: no
/// position and no bias u in their scores, gq . gk / sqrt(dk), one softmax over both. The values
/// are the ordinary ones. A global query sees all frames instead of its window, without positions,
/// with gq, gk and gv. gq, gk and gv are q, k and v, or of linear maps of their own.
///
/// NeMo reads its global queries in another order than it wrote them: it takes [G, H] for [H, G].
/// With one global frame both are equal. With more, frame (h G + g) div H and its head (h G + g)
/// mod H give the query that head h of global frame g uses. Models were trained with that, so it
/// stays. One thing is not repeated: NeMo's tensor often ends with a frame behind the utterance,
/// and where a global position falls on it, NeMo lets every query see it. Here it is padding like
/// any other.
class GlobalAttention : public RelativeAttention {
 public:
  GlobalAttention(const EncoderConfig& config, const WeightReader& reader);

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& key_mask,
                        const at::Tensor& positions) const override;

 private:
  Heads project_global(const at::Tensor& x) const;
  /// The global rows' contexts over all frames, [B, H, G, dk]; `real` [B, G]: frames of the row.
  at::Tensor see_all(const Heads& global, const at::Tensor& queries, const at::Tensor& real,
                     const at::Tensor& key_mask) const;

  int64_t tokens_, spacing_;
  at::Tensor global_weight_, global_bias_;  // [3 d, d] and [3 d], or undefined
};

/// The attention that the settings ask for.
std::unique_ptr<const Attention> make_attention(const EncoderConfig& config,
                                                const WeightReader& reader);

}  // namespace rtfx
