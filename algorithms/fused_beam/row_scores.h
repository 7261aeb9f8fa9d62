// A row's logits as scores of what may follow its hypothesis.
#pragma once

#include <cmath>

#include "algorithms/fused_beam/arrays.h"
#include "algorithms/fused_beam/select.h"
#include "algorithms/ngram_lm/advance_row.h"

namespace rtfx::fused_beam {

/// Logits and what is done to them.
struct Scoring {
  Elements logits;                 // [R, V+1+D]
  int32_t blank, durations;        // V; D, 0 for RNN-T
  const int64_t* duration_values;  // [D] frames
  float temperature;               // logits are divided by it
  Fusion fusion;

  /// Whether the language model is asked for all tokens.
  RTFX_HOST_DEVICE bool fuses_all() const { return fusion.states != nullptr && !fusion.early; }
  RTFX_DEVICE float logit(int32_t row, int32_t column) const {
    const int64_t columns = blank + 1 + durations;
    const float x = logits.get(row * columns + column);
    return temperature == 1 ? x : x / temperature;
  }
};

/// ln p(i) = (x_i - greatest) - log_sum
struct Softmax {
  float greatest, log_sum;
};
struct RowSoftmax {
  Softmax labels, durations;
};

template <class Block>
RTFX_DEVICE Softmax softmax(Block& block, const Scoring& scoring, int32_t row, int32_t first,
                            int32_t count) {
  float greatest = kNothing, sum = 0;
  for (int32_t i = block.thread(); i < count; i += block.threads())
    greatest = fmaxf(greatest, scoring.logit(row, first + i));
  greatest = block.all(greatest, [](float a, float b) { return fmaxf(a, b); });
  for (int32_t i = block.thread(); i < count; i += block.threads())
    sum += expf(scoring.logit(row, first + i) - greatest);
  sum = block.all(sum, [](float a, float b) { return a + b; });
  return {greatest, logf(sum)};
}

template <class Block>
RTFX_DEVICE RowSoftmax row_softmax(Block& block, const Scoring& scoring, int32_t row) {
  RowSoftmax result{softmax(block, scoring, row, 0, scoring.blank + 1), {0, 0}};
  if (scoring.durations > 0)
    result.durations = softmax(block, scoring, row, scoring.blank + 1, scoring.durations);
  return result;
}

/// ln p of one row's labels and durations, each computed where it is asked for.
class RowScores {
 public:
  RTFX_DEVICE RowScores(const Scoring& scoring, int32_t row, const RowSoftmax& softmax)
      : scoring_(scoring), row_(row), softmax_(softmax), blank_(label(scoring.blank)) {}

  RTFX_DEVICE float label(int32_t i) const {
    return (scoring_.logit(row_, i) - softmax_.labels.greatest) - softmax_.labels.log_sum;
  }
  RTFX_DEVICE float blank() const { return blank_; }
  RTFX_DEVICE float duration(int32_t i) const {
    const float x = scoring_.logit(row_, scoring_.blank + 1 + i);
    return (x - softmax_.durations.greatest) - softmax_.durations.log_sum;
  }

  /// As fuse (ngram_lm/fusion.h) does; `lm`: what the language model gives a token.
  RTFX_DEVICE float fused(float acoustic, float lm) const {
    const Fusion& f = scoring_.fusion;
    // An unknown token may have ln p = -inf, and 0 * -inf is no number.
    float bonus = f.alpha == 0 ? 0.0f : product(lm, f.alpha);
    bonus += f.beta;
    if (f.full) {
      const float log_rest = logf(-expm1f(blank_));
      bonus = fmaf(fmaxf(log_rest, f.least_log_rest), f.alpha, bonus);
    }
    return acoustic + bonus;
  }
  RTFX_DEVICE float fused_blank() const {
    const Fusion& f = scoring_.fusion;
    return f.states != nullptr && f.full ? blank_ * f.blank_scale : blank_;
  }
  /// The same for one label of this score.
  RTFX_DEVICE float fused_label(int32_t label, float acoustic) const {
    const Fusion& f = scoring_.fusion;
    if (f.states == nullptr) return acoustic;
    if (label == scoring_.blank) return fused_blank();
    return fused(acoustic, look_up(f.lm, f.states[row_], label).score);
  }

  /// Index of the likeliest duration, the first of equals.
  RTFX_DEVICE int32_t likeliest_duration() const {
    Key best = 0;
    for (int32_t d = 0; d < scoring_.durations; ++d) {
      const Key key = key_of(duration(d), d);
      if (key > best) best = key;
    }
    return index_of(best);
  }
  /// A blank of duration 0 moves one frame.
  RTFX_DEVICE int32_t frames_of(int32_t label, int32_t duration) const {
    const auto frames = static_cast<int32_t>(scoring_.duration_values[duration]);
    return label == scoring_.blank && frames < 1 ? 1 : frames;
  }

  RTFX_DEVICE const Scoring& scoring() const { return scoring_; }
  RTFX_DEVICE int32_t row() const { return row_; }

 private:
  const Scoring& scoring_;
  const int32_t row_;
  const RowSoftmax softmax_;
  const float blank_;
};

/// Labels that may follow a row, in memory that the block shares: `ranks` is what they were chosen
/// by, acoustic scores with early pruning and fused ones otherwise; `scores` are always fused.
struct BestLabels {
  int32_t* labels;   // [count]
  float* scores;     // [count]
  float* ranks;      // [count]
  float* lm_scores;  // [V] for late fusion
  int32_t count;

  /// Memory for `count` labels at `shared`.
  RTFX_DEVICE BestLabels(void* shared, int32_t count)
      : labels(static_cast<int32_t*>(shared)),
        scores(reinterpret_cast<float*>(labels + count)),
        ranks(scores + count),
        lm_scores(ranks + count),
        count(count) {}
  static int64_t bytes(const Scoring& scoring, int32_t count) {
    return int64_t{count} * 12 + (scoring.fuses_all() ? int64_t{scoring.blank} * 4 : 0);
  }

  /// Chooses them. Ends with a wait for the block.
  template <class Block>
  RTFX_DEVICE void fill(Block& block, const RowScores& row) const {
    const Scoring& s = row.scoring();
    const bool late = s.fuses_all();
    if (late) advance_row(block, s.fusion.lm, s.fusion.states[row.row()], lm_scores, nullptr);
    select(
        block, s.blank + 1, count,
        [&](int32_t label) {
          float score = row.label(label);
          if (late)
            score = label == s.blank ? row.fused_blank() : row.fused(score, lm_scores[label]);
          return key_of(score, label);
        },
        [&](int32_t i, Key key) {
          if (!is_mine(block, i)) return;
          labels[i] = index_of(key);
          ranks[i] = value_of(key);
        });
    block.sync();
    for (int32_t i = block.thread(); i < count; i += block.threads())
      scores[i] = late ? ranks[i] : row.fused_label(labels[i], ranks[i]);
    block.sync();
  }
};

}  // namespace rtfx::fused_beam
