// The best labels to follow each hypothesis, out of its logits: a block for each row.
#pragma once

#include <cmath>

#include "algorithms/fused_beam/arrays.h"
#include "algorithms/fused_beam/select.h"
#include "algorithms/ngram_lm/advance_row.h"

namespace rtfx::fused_beam {

/// Writes `candidates`. A hypothesis behind its last frame has one alone: itself, with label -1;
/// after max_symbols tokens at a frame blank alone. Also begins a column of the tree and takes back
/// any_active, for Choose.
struct Expand {
  Beams beams;
  Fusion fusion;
  Elements logits;  // [R, V+1+D]
  Candidates candidates;
  int32_t durations;               // D, 0 for RNN-T
  const int64_t* duration_values;  // [D] frames
  int32_t max_symbols;
  float temperature;  // logits are divided by it
  bool* any_active;   // [1]

  int32_t blocks() const { return beams.rows(); }
  /// The chosen labels and, for late fusion, what the language model gives all tokens.
  int64_t shared_bytes() const {
    return int64_t{beams.beam} * 8 + (fuses_all() ? int64_t{beams.blank} * 4 : 0);
  }
  RTFX_HOST_DEVICE bool fuses_all() const { return fusion.states != nullptr && !fusion.early; }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void* shared) const;
};

/// One row's part of it.
template <class Block>
class RowExpansion {
 public:
  RTFX_DEVICE RowExpansion(const Expand& all, Block& block, int32_t row, void* shared)
      : all_(all),
        block_(block),
        row_(row),
        blank_(all.beams.blank),
        beam_(all.beams.beam),
        best_labels_(static_cast<int32_t*>(shared)),
        best_scores_(reinterpret_cast<float*>(best_labels_ + beam_)),
        lm_scores_(best_scores_ + beam_) {}

  RTFX_DEVICE void run() {
    const Beams& beams = all_.beams;
    if (!beams.active(row_)) {
      write_alone(beams.scores[row_], -1, 0);
      return;
    }
    labels_ = log_softmax(0, blank_ + 1);
    if (all_.durations > 0) durations_ = log_softmax(blank_ + 1, all_.durations);
    acoustic_blank_ = log_prob(labels_, blank_);
    if (beams.run[row_] >= all_.max_symbols) {
      force_blank();
      return;
    }
    choose_labels();
    if (all_.durations > 0) {
      choose_durations();
      return;
    }
    for (int32_t i = block_.thread(); i < beam_; i += block_.threads())
      write(i, best_scores_[i], best_labels_[i], 0);
  }

 private:
  /// ln p(i) = (x_i - greatest) - log_sum of the columns from `first` on.
  struct LogSoftmax {
    int32_t first = 0;
    float greatest = 0, log_sum = 0;
  };

  RTFX_DEVICE float logit(int32_t column) const {
    const int64_t columns = blank_ + 1 + all_.durations;
    const float x = all_.logits.get(row_ * columns + column);
    return all_.temperature == 1 ? x : x / all_.temperature;
  }

  RTFX_DEVICE LogSoftmax log_softmax(int32_t first, int32_t count) {
    float greatest = kNothing, sum = 0;
    for (int32_t i = block_.thread(); i < count; i += block_.threads())
      greatest = fmaxf(greatest, logit(first + i));
    greatest = block_.all(greatest, [](float a, float b) { return fmaxf(a, b); });
    for (int32_t i = block_.thread(); i < count; i += block_.threads())
      sum += expf(logit(first + i) - greatest);
    sum = block_.all(sum, [](float a, float b) { return a + b; });
    return {first, greatest, logf(sum)};
  }

  RTFX_DEVICE float log_prob(const LogSoftmax& of, int32_t i) const {
    return (logit(of.first + i) - of.greatest) - of.log_sum;
  }

  /// As fuse (ngram_lm/fusion.h) does.
  RTFX_DEVICE float fused(float acoustic, float lm) const {
    const Fusion& f = all_.fusion;
    // An unknown token may have ln p = -inf, and 0 * -inf is no number.
    float bonus = f.alpha == 0 ? 0.0f : product(lm, f.alpha);
    bonus += f.beta;
    if (f.full) {
      const float log_rest = logf(-expm1f(acoustic_blank_));
      bonus = fmaf(fmaxf(log_rest, f.least_log_rest), f.alpha, bonus);
    }
    return acoustic + bonus;
  }
  RTFX_DEVICE float fused_blank() const {
    const Fusion& f = all_.fusion;
    return f.states != nullptr && f.full ? acoustic_blank_ * f.blank_scale : acoustic_blank_;
  }

  /// The K best labels, by late fusion or by acoustic scores, with their fused scores.
  RTFX_DEVICE void choose_labels() {
    const Fusion& f = all_.fusion;
    const bool late = all_.fuses_all();
    if (late) advance_row(block_, f.lm, f.states[row_], lm_scores_, nullptr);
    select(
        block_, blank_ + 1, beam_,
        [&](int32_t label) {
          float score = log_prob(labels_, label);
          if (late) score = label == blank_ ? fused_blank() : fused(score, lm_scores_[label]);
          return key_of(score, label);
        },
        [&](int32_t i, Key key) {
          if (!is_mine(block_, i)) return;
          best_labels_[i] = index_of(key);
          best_scores_[i] = value_of(key);
        });
    block_.sync();
    if (f.states == nullptr || late) return;
    for (int32_t i = block_.thread(); i < beam_; i += block_.threads()) {
      const int32_t label = best_labels_[i];
      best_scores_[i] = label == blank_
                            ? fused_blank()
                            : fused(best_scores_[i], look_up(f.lm, f.states[row_], label).score);
    }
    block_.sync();
  }

  /// TDT: the K best pairs of those labels and all durations.
  RTFX_DEVICE void choose_durations() {
    const int32_t count = all_.durations;
    select(
        block_, beam_ * count, beam_,
        [&](int32_t pair) {
          return key_of(best_scores_[pair / count] + log_prob(durations_, pair % count), pair);
        },
        [&](int32_t i, Key key) {
          if (!is_mine(block_, i)) return;
          const int32_t label = best_labels_[index_of(key) / count];
          write(i, value_of(key), label, frames_of(label, index_of(key) % count));
        });
  }

  /// A blank of duration 0 moves one frame.
  RTFX_DEVICE int32_t frames_of(int32_t label, int32_t duration) const {
    const auto frames = static_cast<int32_t>(all_.duration_values[duration]);
    return label == blank_ && frames < 1 ? 1 : frames;
  }

  RTFX_DEVICE void force_blank() {
    float score = all_.fusion.acoustic_forced_blank ? acoustic_blank_ : fused_blank();
    int32_t frames = 0;
    if (all_.durations > 0) {
      Key best = 0;
      for (int32_t d = 0; d < all_.durations; ++d) {
        const Key key = key_of(log_prob(durations_, d), d);
        if (key > best) best = key;
      }
      score += value_of(best);
      frames = frames_of(blank_, index_of(best));
    }
    write_alone(all_.beams.scores[row_] + score, blank_, frames);
  }

  RTFX_DEVICE void write_alone(float total, int32_t label, int32_t frames) const {
    for (int32_t i = block_.thread(); i < beam_; i += block_.threads())
      write_total(i, i == 0 ? total : kNothing, label, frames);
  }
  RTFX_DEVICE void write(int32_t i, float score, int32_t label, int32_t frames) const {
    write_total(i, all_.beams.scores[row_] + score, label, frames);
  }
  RTFX_DEVICE void write_total(int32_t i, float total, int32_t label, int32_t frames) const {
    const int64_t place = int64_t{row_} * beam_ + i;
    all_.candidates.scores[place] = total;
    all_.candidates.labels[place] = label;
    if (all_.candidates.durations != nullptr) all_.candidates.durations[place] = frames;
  }

  const Expand& all_;
  Block& block_;
  const int32_t row_, blank_, beam_;
  int32_t* const best_labels_;  // [K]
  float* const best_scores_;    // [K]
  float* const lm_scores_;      // [V]
  LogSoftmax labels_, durations_;
  float acoustic_blank_ = 0;
};

template <class Block>
RTFX_DEVICE void Expand::operator()(Block& block, int32_t row, void* shared) const {
  if (row == 0 && block.thread() == 0) {
    ++*beams.column;
    *any_active = false;
  }
  RowExpansion<Block>(*this, block, row, shared).run();
}

}  // namespace rtfx::fused_beam
