// Multi-head self-attention, with relative positions (Dai et al. 2019) or without positions. It
// covers all frames, a window or chunks, and may have global frames (Beltagy et al. 2020).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Returns sinusoidal embeddings of the relative positions of `frames` frames, from frames - 1 down
/// to -(frames - 1): [2 frames - 1, width]. A positive position means a key to the left of the
/// query. Computed in float32 on the device of `options`, then cast to its dtype. Does not
/// synchronise.
at::Tensor relative_positions(int64_t frames, int64_t width, const at::TensorOptions& options);

/// Returns relative_positions() in the form that NeMo's local attention uses for a window [left,
/// right]. Both functions agree where the sides are equal. Where they differ, NeMo adds the biases
/// of its left + right + 1 positions to the outermost of 2 max(left, right) + 1 columns. A distance
/// then gets the position of another distance, or none (zeros). Rows of distances beyond the window
/// do not matter.
at::Tensor local_positions(int64_t frames, int64_t width, int64_t left, int64_t right,
                           const at::TensorOptions& options);

/// Returns relative_positions() or local_positions(), whichever the encoder uses.
at::Tensor positions_for(const EncoderConfig& config, int64_t frames,
                         const at::TensorOptions& options);

/// Returns sinusoidal embeddings of the positions 0 to frames - 1: [frames, width].
at::Tensor absolute_positions(int64_t frames, int64_t width, const at::TensorOptions& options);

/// Turns scores by relative position into scores by key. `scores` are [..., Q, P], and their
/// positions descend from `Q - 1 - k0` for key k0 = 0. The result is [..., Q, keys], whose element
/// (i, j) is column Q - 1 - i + j. It is a strided view, no copy.
at::Tensor relative_shift(const at::Tensor& scores, int64_t keys);

/// The score of a masked key. It is so low that its exp() is zero in every dtype. It is finite, so
/// that a row without any key gives a mean instead of NaN.
constexpr double kMaskedScore = -1e4;

/// Attention without positions of its own. It knows only the positions that its input contains.
class Attention {
 public:
  Attention(const EncoderConfig& config, const WeightReader& reader);
  virtual ~Attention() = default;

  /// Computes self-attention. x is [B, T', d]. key_mask is [B, T'] bool, true for frames of the
  /// utterance. positions come from relative_positions(T', d) or local_positions(), and have the
  /// dtype and device of x. Returns [B, T', d]. A limited context is evaluated in blocks of
  /// queries, each of whole chunks. Memory then grows with T' times the context instead of T'
  /// squared.
  virtual at::Tensor operator()(const at::Tensor& x, const at::Tensor& key_mask,
                                const at::Tensor& positions) const;

  /// The keys and values of the C frames before the current ones.
  struct Past {
    at::Tensor keys, values;  // [B, H, C, dk]
  };

  /// Attends from the next n frames of rows whose earlier frames are in `past`: x [B, n, d] -> [B,
  /// n, d]. Each new frame sees those of the C earlier and the n new frames that key_mask [B, C +
  /// n] allows. If the n frames are a chunk and C is its left context, this is exactly the context
  /// of the chunk. `position_keys` is the result of position_keys(C, n). Afterwards `past` holds
  /// the last C frames. Does not synchronise.
  at::Tensor forward_step(const at::Tensor& x, Past& past, const at::Tensor& key_mask,
                          const at::Tensor& position_keys) const;
  /// Returns the position keys that forward_step() reads for n = `count` queries after C = `past`
  /// frames. They are computed once.
  virtual at::Tensor position_keys(const EncoderConfig& config, int64_t past, int64_t count) const;

 protected:
  /// A range of queries, and the range of keys that any of them sees.
  struct Block {
    int64_t query, queries, key, keys;
  };
  struct Heads {
    at::Tensor q, k, v;  // [B, H, T', dk]
  };

  Heads project(const at::Tensor& x) const;
  std::vector<Block> blocks(int64_t frames) const;
  /// Joins the contexts [B, H, queries, dk] of the blocks and applies the output map -> [B, T', d].
  at::Tensor merge(const std::vector<at::Tensor>& contexts) const;

  /// Returns the bias of a block's scores, [B, H or 1, queries, keys]. It is a large negative
  /// number where a query does not see a key.
  at::Tensor bias(const Heads& heads, const at::Tensor& key_mask, const at::Tensor& positions,
                  const Block& block) const;
  /// Computes the bias from queries [B, H, queries, dk], projected() positions and visible().
  virtual at::Tensor bias(const at::Tensor& query, const at::Tensor& position_keys,
                          const at::Tensor& seen) const;
  /// Projects rows of relative_positions() [P, d] to position keys. Undefined without positions.
  virtual at::Tensor projected(const at::Tensor& positions) const;
  /// Returns a block's queries [B, H, queries, dk] with the bias of their product with the keys.
  virtual at::Tensor biased(const at::Tensor& query) const { return query; }

  /// Returns whether a query sees a key: bool [B, 1, 1 or queries, keys].
  at::Tensor visible(const at::Tensor& key_mask, const Block& block) const;

  int64_t heads_, head_width_;
  double scale_;  // factor of the scores

 private:
  int64_t left_, right_, chunk_;
  at::Tensor qkv_weight_, qkv_bias_, out_weight_, out_bias_;
};

/// Attention of Transformer-XL: each head adds one bias to queries that meet keys, and another one
/// to queries that meet positions relative to the query.
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

/// NeMo's local attention with a few global frames, which see all frames and which all frames see
/// (Longformer). The G frames 0, s, 2 s, ... are global, as far as a row reaches
/// (EncoderConfig::global_tokens and global_tokens_spacing).
///
/// Every query has the global frames as additional keys. A global frame within the window of the
/// query is a key twice. The score of a global key is gq . gk / sqrt(dk), without position and
/// without bias u. One softmax covers both kinds of keys, and the values are the ordinary ones. A
/// global query sees all frames instead of its window, without positions, and uses gq, gk and gv.
/// gq, gk and gv are q, k and v, or come from linear maps of their own.
///
/// NeMo reads its global queries in another order than it wrote them: it takes [G, H] for [H, G].
/// With one global frame, both orders are equal. With more, let n = h G + g. Then head h of global
/// frame g uses the query of frame n div H and head n mod H. Models were trained with this order,
/// so rtfx keeps it.
///
/// rtfx differs from NeMo in one case. NeMo's tensor often ends with a frame after the utterance.
/// If a global position falls on that frame, NeMo lets every query see it. Here it is padding like
/// any other.
class GlobalAttention : public RelativeAttention {
 public:
  GlobalAttention(const EncoderConfig& config, const WeightReader& reader);

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& key_mask,
                        const at::Tensor& positions) const override;

 private:
  Heads project_global(const at::Tensor& x) const;
  /// Returns the contexts of the global rows over all frames, [B, H, G, dk]. `real` [B, G] marks
  /// the global frames that the row has.
  at::Tensor see_all(const Heads& global, const at::Tensor& queries, const at::Tensor& real,
                     const at::Tensor& key_mask) const;

  int64_t tokens_, spacing_;
  at::Tensor global_weight_, global_bias_;  // [3 d, d] and [3 d], or undefined
};

/// Makes the attention that the settings ask for.
std::unique_ptr<const Attention> make_attention(const EncoderConfig& config,
                                                const WeightReader& reader);

}  // namespace rtfx
