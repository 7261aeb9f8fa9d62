// A row's logits as scores of what may follow its hypothesis.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include "algorithms/shared/fused_beam/arrays.h"
#include "algorithms/shared/fused_beam/select.h"
#include "algorithms/shared/ngram_lm/advance_row.h"

namespace rtfx::fused_beam {

/// Logits and what is done to them.
struct Scoring {
  Elements logits;                 // [R, columns]
  int32_t columns;                 // V+1+D, and padding that is never read
  int32_t blank, durations;        // V; D, 0 for RNN-T
  const int64_t* duration_values;  // [D] frames
  float temperature;               // logits are divided by it
  Fusion fusion;

  /// Whether labels are chosen by fused scores, and whether the language model is asked for all.
  RTFX_HOST_DEVICE bool fuses_all() const { return fusion.any() && !fusion.early; }
  RTFX_HOST_DEVICE bool asks_lm_for_all() const {
    return fusion.states != nullptr && !fusion.early;
  }
  RTFX_DEVICE float scaled(float logit) const {
    return temperature == 1 ? logit : logit / temperature;
  }
};

/// One row's logits, divided by the temperature, where they are.
class RowLogits {
 public:
  RTFX_DEVICE RowLogits(const Scoring& scoring, int32_t row) : scoring_(scoring), row_(row) {}

  RTFX_DEVICE float operator()(int32_t column) const {
    return scoring_.scaled(scoring_.logits.get(int64_t{row_} * scoring_.columns + column));
  }
  RTFX_DEVICE const Scoring& scoring() const { return scoring_; }
  RTFX_DEVICE int32_t row() const { return row_; }

 private:
  const Scoring& scoring_;
  const int32_t row_;
};

/// The same, copied to shared memory once: so all loads are in flight together.
class StagedLogits {
 public:
  /// No barrier inside: until block.sync(), a thread may read only the columns that it staged,
  /// those of its number and every threads()-th after it.
  template <class Block>
  RTFX_DEVICE StagedLogits(const Block& block, const Scoring& scoring, int32_t row, void* shared)
      : scoring_(scoring), row_(row), staged_(static_cast<uint32_t*>(shared)) {
    const int32_t count = used(scoring);
    with_type(scoring.logits.precision, [&](auto type) {
      using T = decltype(type);
      const T* from = scoring.logits.as<T>() + int64_t{row} * scoring.columns;
      constexpr int32_t kLoadsInFlight = 6;  // one predicate register each; the hardware has seven
      const int32_t step = block.threads();
      for (int32_t first = block.thread(); first < count; first += kLoadsInFlight * step) {
        T x[kLoadsInFlight] = {};
        for (int32_t i = 0; i < kLoadsInFlight; ++i)
          if (first + i * step < count) x[i] = load_constant(from + first + i * step);
        for (int32_t i = 0; i < kLoadsInFlight; ++i)
          if (first + i * step < count) put(first + i * step, to_float(x[i]));
      }
    });
    if (scoring.temperature == 1) return;
    for (int32_t i = block.thread(); i < count; i += block.threads())
      put(i, scoring.scaled((*this)(i)));
  }

  /// Bytes of shared memory for a row; 0 where it has too many columns to be staged.
  RTFX_HOST_DEVICE static int64_t bytes(const Scoring& scoring) {
    // 32 KiB of logits and 32 KiB of scores of a language model fit on sm_80 and later.
    constexpr int32_t kMaxStagedColumns = 8192;
    return used(scoring) <= kMaxStagedColumns ? int64_t{used(scoring)} * 4 : 0;
  }

  RTFX_DEVICE float operator()(int32_t column) const {
    const uint32_t bits = staged_[column];
    float x = 0;
    memcpy(&x, &bits, sizeof(x));
    return x;
  }
  RTFX_DEVICE const Scoring& scoring() const { return scoring_; }
  RTFX_DEVICE int32_t row() const { return row_; }
  /// Where they are, as bits.
  RTFX_DEVICE uint32_t* memory() const { return staged_; }

 private:
  RTFX_HOST_DEVICE static int32_t used(const Scoring& scoring) {
    return scoring.blank + 1 + scoring.durations;
  }
  RTFX_DEVICE void put(int32_t column, float x) const {
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof(x));
    staged_[column] = bits;
  }

  const Scoring& scoring_;
  const int32_t row_;
  uint32_t* const staged_;
};

/// work(logits) with StagedLogits in `shared`, or RowLogits for rows that are too long.
template <class Block, class Work>
RTFX_DEVICE void with_logits(const Block& block, const Scoring& scoring, int32_t row, void* shared,
                             const Work& work) {
  if (StagedLogits::bytes(scoring) > 0) {
    work(StagedLogits(block, scoring, row, shared));
  } else {
    work(RowLogits(scoring, row));
  }
}

/// ln p(i) = (x_i - greatest) - log_sum
struct Softmax {
  float greatest, log_sum;
};
struct RowSoftmax {
  Softmax labels, durations;
};

/// Waits for the block.
template <class Block, class Logits>
RTFX_DEVICE RowSoftmax row_softmax(Block& block, const Logits& logits) {
  const int32_t labels = logits.scoring().blank + 1, durations = logits.scoring().durations;
  float greatest = kLogZero, sum = 0;
  for (int32_t i = block.thread(); i < labels; i += block.threads())
    greatest = fmaxf(greatest, logits(i));
  greatest = block.all_reduce(greatest, [](float a, float b) { return fmaxf(a, b); });
  for (int32_t i = block.thread(); i < labels; i += block.threads())
    sum += expf(logits(i) - greatest);
  sum = block.all_reduce(sum, [](float a, float b) { return a + b; });
  RowSoftmax result{{greatest, logf(sum)}, {0, 0}};
  if (durations == 0) return result;
  // So few that each thread does it by itself.
  greatest = kLogZero;
  sum = 0;
  for (int32_t d = 0; d < durations; ++d) greatest = fmaxf(greatest, logits(labels + d));
  for (int32_t d = 0; d < durations; ++d) sum += expf(logits(labels + d) - greatest);
  result.durations = {greatest, logf(sum)};
  return result;
}

/// ln p of one row's labels and durations, each computed where it is asked for.
template <class Logits>
class RowScores {
 public:
  RTFX_DEVICE RowScores(const Logits& logits, const RowSoftmax& softmax)
      : logits_(logits),
        scoring_(logits.scoring()),
        softmax_(softmax),
        blank_(label(scoring_.blank)),
        own_weight_(scoring_.fusion.own_blank_weight(logits.row())),
        rest_(scoring_.fusion.full || own_weight_ != 0
                  ? fmaxf(logf(-expm1f(blank_)), scoring_.fusion.least_log_rest)
                  : 0) {}

  RTFX_DEVICE float label(int32_t i) const {
    return (logits_(i) - softmax_.labels.greatest) - softmax_.labels.log_sum;
  }
  RTFX_DEVICE float blank() const { return blank_; }
  RTFX_DEVICE float duration(int32_t i) const {
    const float x = logits_(scoring_.blank + 1 + i);
    return (x - softmax_.durations.greatest) - softmax_.durations.log_sum;
  }

  /// As fuse (ngram_lm/fusion.h) does; `lm`: what the language model gives the token. Then what the
  /// row's own model does.
  RTFX_DEVICE float fused(int32_t token, float acoustic, float lm) const {
    const Fusion& f = scoring_.fusion;
    if (f.states != nullptr) acoustic = fused_with_lm(acoustic, lm);
    if (f.roots == nullptr) return acoustic;
    acoustic += f.own_score(row(), f.own_states[row()], token);
    return own_weight_ != 0 ? acoustic + product(own_weight_, rest_) : acoustic;
  }
  RTFX_DEVICE float fused_blank() const {
    const Fusion& f = scoring_.fusion;
    const float with_lm = f.states != nullptr && f.full ? product(blank_, f.blank_scale) : blank_;
    return own_weight_ != 0 ? with_lm + product(own_weight_, blank_) : with_lm;
  }
  /// The same for one label of this score.
  RTFX_DEVICE float fused_label(int32_t label, float acoustic) const {
    const Fusion& f = scoring_.fusion;
    if (!f.any()) return acoustic;
    if (label == scoring_.blank) return fused_blank();
    const float lm = f.states != nullptr ? look_up(f.lm, f.states[row()], label).score : 0.0f;
    return fused(label, acoustic, lm);
  }

  /// Index of the likeliest duration, the first of equals.
  RTFX_DEVICE int32_t likeliest_duration() const {
    MaxKey best = 0;
    for (int32_t d = 0; d < scoring_.durations; ++d) {
      const MaxKey key = max_key(duration(d), d);
      if (key > best) best = key;
    }
    return index_of(best);
  }
  /// A blank of duration 0 moves one frame.
  RTFX_DEVICE int32_t frames_of(int32_t label, int32_t duration) const {
    const auto frames = static_cast<int32_t>(scoring_.duration_values[duration]);
    return label == scoring_.blank && frames < 1 ? 1 : frames;
  }

  RTFX_DEVICE const Logits& logits() const { return logits_; }
  RTFX_DEVICE const Scoring& scoring() const { return scoring_; }
  RTFX_DEVICE int32_t row() const { return logits_.row(); }

 private:
  RTFX_DEVICE float fused_with_lm(float acoustic, float lm) const {
    const Fusion& f = scoring_.fusion;
    // An unknown token may have ln p = -inf, and 0 * -inf is no number.
    float bonus = f.alpha == 0 ? 0.0f : product(lm, f.alpha);
    bonus += f.beta;
    if (f.full) bonus = fmaf(rest_, f.alpha, bonus);
    return acoustic + bonus;
  }

  const Logits logits_;
  const Scoring& scoring_;
  const RowSoftmax softmax_;
  const float blank_;
  const float own_weight_, rest_;  // rest_: ln(1 - p(blank)), for blank that is rescaled
};

/// Labels that may follow a row, in memory that the block shares: `ranks` is what they were chosen
/// by, acoustic scores with early pruning and fused ones otherwise; `scores` are always fused.
struct BestLabels {
  int32_t* labels;   // [count]
  float* scores;     // [count]
  float* ranks;      // [count]
  float* lm_scores;  // [V] for late fusion with a language model
  int32_t count;

  /// Memory for `count` labels at `shared`.
  RTFX_DEVICE BestLabels(void* shared, int32_t count)
      : labels(static_cast<int32_t*>(shared)),
        scores(reinterpret_cast<float*>(labels + count)),
        ranks(scores + count),
        lm_scores(ranks + count),
        count(count) {}
  static int64_t bytes(const Scoring& scoring, int32_t count) {
    return int64_t{count} * 12 + (scoring.asks_lm_for_all() ? int64_t{scoring.blank} * 4 : 0);
  }

  /// Chooses them; staged logits of labels are overwritten. Ends with a wait for the block.
  template <class Block, class Logits>
  RTFX_DEVICE void fill(Block& block, const RowScores<Logits>& row) const {
    const Scoring& s = row.scoring();
    const bool late = s.fuses_all(), lm = s.asks_lm_for_all();
    if (lm) advance_row(block, s.fusion.lm, s.fusion.states[row.row()], lm_scores, nullptr);
    const auto score = [&](int32_t label) {
      if (!late) return row.label(label);
      if (label == s.blank) return row.fused_blank();
      return row.fused(label, row.label(label), lm ? lm_scores[label] : 0.0f);
    };
    const auto visit = [&](int32_t i, MaxKey key) {
      if (!is_mine(block, i)) return;
      labels[i] = index_of(key);
      ranks[i] = value_of(key);
    };
    if constexpr (std::is_same_v<Logits, StagedLogits>) {
      uint32_t* const of_labels = row.logits().memory();
      block.sync();  // all know the blank's logit
      for (int32_t i = block.thread(); i <= s.blank; i += block.threads())
        of_labels[i] = rank_of(score(i));
      select(
          block, s.blank + 1, count, [&](int32_t i) { return max_key_of_rank(of_labels[i], i); },
          visit);
    } else {
      select(
          block, s.blank + 1, count, [&](int32_t i) { return max_key(score(i), i); }, visit);
    }
    block.sync();
    for (int32_t i = block.thread(); i < count; i += block.threads())
      scores[i] = late ? ranks[i] : row.fused_label(labels[i], ranks[i]);
    block.sync();
  }
};

}  // namespace rtfx::fused_beam
