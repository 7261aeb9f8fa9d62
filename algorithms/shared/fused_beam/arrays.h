// What the phases of a fused step read and write: plain pointers to device memory (or to the
// host's, where they run on a CPU). No LibTorch here: the kernels include it.
//
// B utterances, K slots each, R = B * K rows: row b * K + k is slot k of utterance b.
#pragma once

#include <cstdint>

#include "algorithms/gpu/thread_block.h"
#include "algorithms/log_zero.h"
#include "algorithms/shared/ngram_lm/view.h"
#include "base/gpu/precision.h"

namespace rtfx::fused_beam {

/// a * b, rounded: as operators that do one thing at a time have it.
RTFX_DEVICE inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);  // not to be contracted with the sum that follows
#else
  return a * b;
#endif
}

/// A tensor of the model's dtype.
struct Elements {
  void* data = nullptr;
  Precision precision = Precision::fp32;

  template <class T>
  RTFX_DEVICE T* as() const {
    return static_cast<T*>(data);
  }
  RTFX_DEVICE float get(int64_t i) const {
    return with_type(precision, [&](auto type) { return to_float(as<decltype(type)>()[i]); });
  }
};

/// BeamHypotheses, and the frames of the utterances.
struct Beams {
  int32_t batch, beam, blank;
  int64_t hash_multiplier;
  const int64_t* frames;                                            // [B]
  float* scores;                                                    // [R]
  int64_t *hash, *last_label, *lengths, *time, *prefix_hash, *run;  // [R]
  int32_t *tree_labels, *tree_parents, *tree_durations;             // [C, R]; durations: TDT
  int64_t* column;                                                  // [1]

  RTFX_HOST_DEVICE int32_t rows() const { return batch * beam; }
  /// Hash of a text with `hash` and a token more.
  RTFX_DEVICE int64_t extended(int64_t hash, int32_t token) const {
    const auto bits = static_cast<uint64_t>(hash) * static_cast<uint64_t>(hash_multiplier);
    return static_cast<int64_t>(bits + 1 + static_cast<uint64_t>(token));
  }
  /// Holds a hypothesis with a frame left.
  RTFX_DEVICE bool active(int32_t row) const {
    const float score = scores[row];
    return frames_left(row) > 0 && score > kLogZero;
  }
  RTFX_DEVICE int64_t frames_left(int32_t row) const { return frames[row / beam] - time[row]; }
};

/// Shallow fusion with an n-gram model (ngram_lm/fusion.h), and with models of single rows
/// (ngram_lm/row_bias.h). states null: none of the first; roots null: none of the second.
struct Fusion {
  NgramView lm;
  int32_t* states;  // [R]
  float alpha, beta;
  bool full;             // blank is rescaled along with the tokens
  float blank_scale;     // 1 + alpha
  float least_log_rest;  // least ln(1 - p(blank))
  bool early;            // labels are taken by acoustic scores
  bool acoustic_forced_blank;
  NgramView models;
  const int32_t* roots;        // [R]
  int32_t* own_states;         // [R], from the row's root on
  const float* blank_weights;  // [R], by which a row's own model rescales blank; null: none does

  RTFX_HOST_DEVICE bool any() const { return states != nullptr || roots != nullptr; }
  RTFX_DEVICE float own_blank_weight(int32_t row) const {
    return blank_weights != nullptr ? blank_weights[row] : 0.0f;
  }
  /// What a row's own model adds to a token, and its state behind a label.
  RTFX_DEVICE float own_score(int32_t row, int32_t own_state, int32_t token) const {
    return roots != nullptr ? look_up(models, roots[row] + own_state, token).score : 0.0f;
  }
  RTFX_DEVICE int32_t own_next(int32_t row, int32_t own_state, int32_t label) const {
    if (roots == nullptr) return 0;
    const int32_t next = look_up(models, roots[row] + own_state, label).next;
    return next == 0 ? 0 : next - roots[row];
  }
};

/// What each row takes from the step before.
struct Moves {
  int32_t* parents;  // [R] row
  int32_t* tokens;   // [R] token, or -1: the same text as the parent
  /// [1] 0 or 1: which of two buffers takes the LSTM states; the other has those before the step.
  int32_t* state_buffer;
};

}  // namespace rtfx::fused_beam
