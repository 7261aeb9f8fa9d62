// Phases around the GEMMs of joint and prediction network: the elementwise parts, and the way from
// a row's logits to the scores of what may follow its hypothesis. The kernels include this file, so
// it includes no LibTorch header.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include "algorithms/shared/fused_beam/hypothesis_step.h"
#include "algorithms/shared/ngram_lm/view.h"
#include "base/gpu/activation.h"
#include "base/gpu/rounding.h"

namespace rtfx::fused_beam {

/// Rows of `width` elements, cut into chunks with one element for each thread of a block. A block
/// works on one chunk. Wider chunks would be no faster, since the threads mostly wait for memory.
struct Chunks {
  static constexpr int32_t kThreads = 128;

  int32_t rows, width;

  RTFX_HOST_DEVICE int32_t of_row() const { return ceil_div(width, kThreads); }
  int32_t blocks() const { return rows * of_row(); }

  /// Calls work(row, i) for each element of one chunk.
  template <ThreadBlock Block, class Work>
  RTFX_DEVICE void each(const Block& block, int32_t chunk, const Work& work) const {
    const int32_t row = chunk / of_row(), begin = chunk % of_row() * kThreads;
    const int32_t end = begin + kThreads < width ? begin + kThreads : width;
    for (int32_t i = begin + block.thread(); i < end; i += block.threads()) work(row, i);
  }
};

/// Computes the joint's hidden units, act(e + g), at `frame`, or at the frame of each hypothesis if
/// `frame` is null. Frames are clamped to the utterance.
struct Hidden {
  static constexpr int32_t kThreads = Chunks::kThreads;

  Beams beams;
  Elements encoded;      // [B, T', H]
  Elements prediction;   // [R, H]
  Elements hidden;       // [R, H]
  const int64_t* frame;  // [1], or null
  int64_t frames;        // T'
  Chunks chunks;         // R, H
  Activation activation;

  int32_t blocks() const { return chunks.blocks(); }
  int64_t shared_bytes() const { return 0; }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t chunk, void*) const {
    with_type(hidden.precision, [&](auto type) {
      using T = decltype(type);
      chunks.each(block, chunk, [&](int32_t row, int32_t i) {
        const int64_t place = int64_t{row} * chunks.width + i;
        const T g = load_constant(prediction.as<T>() + place);
        const T e = load_constant(encoded.as<T>() + frame_of(row) * chunks.width + i);
        const T sum = from_float<T>(to_float(e) + to_float(g));
        hidden.as<T>()[place] = from_float<T>(activate(activation, to_float(sum)));
      });
    });
  }

 private:
  /// Returns the row of `encoded` that the hypothesis is at.
  RTFX_DEVICE int64_t frame_of(int32_t row) const {
    const int32_t b = row / beams.beam;
    const int64_t last = beams.frames[b] - 1, time = frame == nullptr ? beams.time[row] : *frame;
    const int64_t valid = time < last ? time : last;
    return b * frames + (valid > 0 ? valid : 0);
  }
};

/// Computes the units of one LSTM layer. Rows with a token step on from their parent's state; the
/// others copy it. Gates have the order i, f, g, o.
///
/// States have two buffers. A row may read the state of any other row, so new states go to the
/// buffer that no row reads in this step (Moves::state_buffer).
struct LstmCell {
  static constexpr int32_t kThreads = Chunks::kThreads;

  Moves moves;
  Elements input_gates;  // [V+1, 4P] for each label, or [R, 4P] for each row; without bias
  bool by_token;
  Elements recurrent_gates;             // [R, 4P] from the states before the step; without bias
  Elements input_bias, recurrent_bias;  // [4P]
  Elements h, c;                        // [2, R, P] both buffers of this layer's states
  Elements output;                      // [R, P] h after the step
  Chunks chunks;                        // R, P

  int32_t blocks() const { return chunks.blocks(); }
  int64_t shared_bytes() const { return 0; }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t chunk, void*) const {
    with_type(output.precision, [&](auto type) {
      using T = decltype(type);
      chunks.each(block, chunk, [&](int32_t row, int32_t i) { step<T>(row, i); });
    });
  }

 private:
  template <class T>
  RTFX_DEVICE void step(int32_t row, int32_t i) const {
    const int32_t token = moves.tokens[row], parent = moves.parents[row],
                  buffer = *moves.state_buffer;
    const int64_t width = chunks.width, place = row * width + i;
    const int64_t from = int64_t{1 - buffer} * chunks.rows * width + parent * width + i;
    const int64_t to = int64_t{buffer} * chunks.rows * width + place;
    T new_h = load_constant(h.as<T>() + from), new_c = load_constant(c.as<T>() + from);
    if (token >= 0) {
      const int64_t input = int64_t{by_token ? token : row} * 4 * width;
      T terms[4][4];
      for (int32_t gate = 0; gate < 4; ++gate) {
        const int64_t column = gate * width + i;
        terms[gate][0] = load_constant(input_gates.as<T>() + input + column);
        terms[gate][1] = load_constant(recurrent_gates.as<T>() + parent * 4 * width + column);
        terms[gate][2] = load_constant(input_bias.as<T>() + column);
        terms[gate][3] = load_constant(recurrent_bias.as<T>() + column);
      }
      const auto gate = [&terms](int32_t number) {
        const T* t = terms[number];
        return to_float(t[0]) + to_float(t[1]) + to_float(t[2]) + to_float(t[3]);
      };
      const float kept = sigmoid(gate(1)) * to_float(new_c);
      const float cell = kept + sigmoid(gate(0)) * tanhf(gate(2));
      new_c = from_float<T>(cell);
      new_h = from_float<T>(sigmoid(gate(3)) * tanhf(cell));
    }
    h.as<T>()[to] = new_h;
    c.as<T>()[to] = new_c;
    output.as<T>()[place] = new_h;
  }
};

/// The logits of all rows, and how they become scores.
struct Scoring {
  Elements logits;                 // [R, columns]
  int32_t columns;                 // V+1+D, then padding that is never read
  int32_t blank, durations;        // V; D, 0 for RNN-T
  const int64_t* duration_values;  // [D] frames
  float temperature;               // logits are divided by it
  Fusion fusion;

  /// Returns whether labels are chosen by fused scores.
  RTFX_HOST_DEVICE bool fuses_all() const { return fusion.any() && !fusion.early; }
  /// Returns whether the language model scores all tokens of a row.
  RTFX_HOST_DEVICE bool asks_lm_for_all() const {
    return fusion.states != nullptr && !fusion.early;
  }
  RTFX_DEVICE float scaled(float logit) const {
    return temperature == 1 ? logit : logit / temperature;
  }
};

/// Reads one row's logits from global memory, divided by the temperature.
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

/// Reads one row's logits from a copy in shared memory. All loads of the copy are in flight
/// together.
class StagedLogits {
 public:
  /// Copies the logits without a barrier. Until block.sync(), a thread may read only the columns
  /// that it copied: the one of its own number, and every threads()-th after it.
  template <ThreadBlock Block>
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

  /// Returns the bytes of shared memory for a row; 0 if it has too many columns for a copy.
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
  /// Returns the copy's memory, which holds the bits of the logits.
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

/// Calls work(logits) with StagedLogits in `shared`, or with RowLogits if a row is too long.
template <ThreadBlock Block, class Work>
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

/// Returns the normalisers of a row's labels and durations. All threads of the block take part.
template <ReducingBlock Block, class Logits>
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
  // There are so few durations that each thread computes this by itself.
  greatest = kLogZero;
  sum = 0;
  for (int32_t d = 0; d < durations; ++d) greatest = fmaxf(greatest, logits(labels + d));
  for (int32_t d = 0; d < durations; ++d) sum += expf(logits(labels + d) - greatest);
  result.durations = {greatest, logf(sum)};
  return result;
}

/// ln p of one row's labels and durations. Each is computed when a caller asks for it.
template <class Logits>
class RowScores {
 public:
  RTFX_DEVICE RowScores(const Logits& logits, const RowSoftmax& softmax)
      : logits_(logits),
        scoring_(logits.scoring()),
        softmax_(softmax),
        blank_(label(scoring_.blank)),
        bias_weight_(scoring_.fusion.bias_blank_weight(logits.row())),
        rest_(scoring_.fusion.full || bias_weight_ != 0
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

  /// Returns the fused score of a token: the language model's score `lm` is added as fuse()
  /// (ngram_lm/fusion.h) does, then the biasing score of the row.
  RTFX_DEVICE float fused(int32_t token, float acoustic, float lm) const {
    const Fusion& f = scoring_.fusion;
    if (f.states != nullptr) acoustic = fused_with_lm(acoustic, lm);
    if (f.bias_roots == nullptr) return acoustic;
    acoustic += f.bias_score(row(), f.bias_states[row()], token);
    return bias_weight_ != 0 ? acoustic + product(bias_weight_, rest_) : acoustic;
  }
  RTFX_DEVICE float fused_blank() const {
    const Fusion& f = scoring_.fusion;
    const float with_lm = f.states != nullptr && f.full ? product(blank_, f.blank_scale) : blank_;
    return bias_weight_ != 0 ? with_lm + product(bias_weight_, blank_) : with_lm;
  }
  /// Returns the fused score of any label with this acoustic score.
  RTFX_DEVICE float fused_label(int32_t label, float acoustic) const {
    const Fusion& f = scoring_.fusion;
    if (!f.any()) return acoustic;
    if (label == scoring_.blank) return fused_blank();
    const float lm = f.states != nullptr ? look_up(f.lm, f.states[row()], label).score : 0.0f;
    return fused(label, acoustic, lm);
  }

  /// Returns the index of the likeliest duration, the first of equal ones.
  RTFX_DEVICE int32_t likeliest_duration() const {
    MaxKey best = 0;
    for (int32_t d = 0; d < scoring_.durations; ++d) {
      const MaxKey key = max_key(duration(d), d);
      if (key > best) best = key;
    }
    return index_of(best);
  }
  /// Returns the frames that a label moves. A blank of duration 0 moves one frame.
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
    // An unknown token may have ln p = -inf, and 0 * -inf would be NaN.
    float bonus = f.alpha == 0 ? 0.0f : product(lm, f.alpha);
    bonus += f.beta;
    if (f.full) bonus = fmaf(rest_, f.alpha, bonus);
    return acoustic + bonus;
  }

  const Logits logits_;
  const Scoring& scoring_;
  const RowSoftmax softmax_;
  const float blank_;
  const float bias_weight_, rest_;  // rest_: ln(1 - p(blank)) where blank is rescaled
};

/// The best labels to follow a row, in memory that the block shares. Labels are chosen by `ranks`:
/// acoustic scores with early pruning, and fused scores otherwise. `scores` are always fused.
struct BestLabels {
  int32_t* labels;   // [count]
  float* scores;     // [count]
  float* ranks;      // [count]
  float* lm_scores;  // [V] for late fusion with a language model
  int32_t count;

  /// Lays out the arrays for `count` labels at `shared`.
  RTFX_DEVICE BestLabels(void* shared, int32_t count)
      : labels(static_cast<int32_t*>(shared)),
        scores(reinterpret_cast<float*>(labels + count)),
        ranks(scores + count),
        lm_scores(ranks + count),
        count(count) {}
  static int64_t bytes(const Scoring& scoring, int32_t count) {
    return int64_t{count} * 12 + (scoring.asks_lm_for_all() ? int64_t{scoring.blank} * 4 : 0);
  }

  /// Chooses the labels, and overwrites staged logits of labels. Ends with a barrier.
  template <ReducingBlock Block, class Logits>
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
      uint32_t* const rank_bits = row.logits().memory();
      block.sync();  // all threads have read the blank's logit
      for (int32_t i = block.thread(); i <= s.blank; i += block.threads())
        rank_bits[i] = rank_of(score(i));
      select(
          block, s.blank + 1, count, [&](int32_t i) { return max_key_of_rank(rank_bits[i], i); },
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
