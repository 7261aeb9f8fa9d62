// What the phases of a fused step read and write: plain pointers to device memory (or to the
// host's, where they run on a CPU). No LibTorch here: the kernels include it.
//
// B utterances, K slots each, R = B * K rows: row b * K + k is slot k of utterance b.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#include "algorithms/gpu/ordered_key.h"
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

// The largest of many values by a block of threads, without sorting them.

/// Every thread calls visit(i, key) for the i-th greatest of key_at(0 .. n - 1), i < k <= n. Each
/// thread remembers the best of its own indices, and searches them again only once that one was
/// taken; a thread with a single index need not.
template <class Block, class KeyAt, class Visit>
RTFX_DEVICE void select(Block& block, int32_t n, int32_t k, const KeyAt& key_at,
                        const Visit& visit) {
  const auto best_below = [&](MaxKey taken) {
    MaxKey best = 0;
    for (int32_t j = block.thread(); j < n; j += block.threads()) {
      const MaxKey key = key_at(j);
      if (key < taken && key > best) best = key;
    }
    return best;
  };
  const bool has_more = block.thread() + block.threads() < n;
  MaxKey own = best_below(~MaxKey{0});
  for (int32_t i = 0; i < k; ++i) {
    const MaxKey taken = block.all_reduce(own, Maximum{});
    visit(i, taken);
    if (own == taken && i + 1 < k) own = has_more ? best_below(taken) : 0;
  }
}

/// Whether visit(i, ...) is this thread's: each is one thread's.
template <class Block>
RTFX_DEVICE bool is_mine(const Block& block, int32_t i) {
  return block.thread() == i % block.threads();
}

// What may follow each hypothesis, and the best of it for an utterance.

/// What a slot takes: hypothesis `parent` (row) followed by `label`.
struct Step {
  int32_t parent, label, duration;
  float score;
};

struct Candidates {
  float* scores;       // [R, N] with it
  int32_t* labels;     // [R, N] token, blank, or -1
  int32_t* durations;  // [R, N] frames, 0 for label -1; null unless TDT
  int32_t count;       // N

  RTFX_DEVICE void write(int32_t row, int32_t i, float score, int32_t label,
                         int32_t duration) const {
    const int64_t place = int64_t{row} * count + i;
    scores[place] = score;
    labels[place] = label;
    if (durations != nullptr) durations[place] = duration;
  }
  /// Candidate i alone; the others are nothing.
  template <class Block>
  RTFX_DEVICE void write_alone(Block& block, int32_t row, int32_t i, float score, int32_t label,
                               int32_t duration) const {
    for (int32_t j = block.thread(); j < count; j += block.threads())
      write(row, j, j == i ? score : kLogZero, label, duration);
  }

  /// visit(k, key) for the `beam` best of an utterance by `by` ([R, N], as `scores`): see select.
  template <class Block, class Visit>
  RTFX_DEVICE void best(Block& block, int32_t utterance, int32_t beam, const float* by,
                        const Visit& visit) const {
    const float* own = by + int64_t{utterance} * beam * count;
    select(
        block, beam * count, beam, [&](int32_t i) { return max_key(own[i], i); }, visit);
  }
  RTFX_DEVICE Step step(int32_t utterance, int32_t beam, MaxKey key) const {
    const int32_t index = index_of(key), first = utterance * beam;
    const int64_t place = int64_t{first} * count + index;
    return {first + index / count, labels[place], durations != nullptr ? durations[place] : 0,
            value_of(key)};
  }
};

// The step of hypotheses in the arrays of a beam, and the sum of those with equal texts: by a block
// for each utterance.

/// A hypothesis after its step, before it is written.
struct Slot {
  int64_t hash, last_label, length, time, prefix_hash, run;
  MaxKey candidate;  // of the best, the one that it takes
  Step step;
  int32_t lm_state, own_state;
  float score;  // once equal texts became one
};

struct Append {
  Beams beams;
  Fusion fusion;
  Moves moves;
  int64_t* texts;       // [R, C] last labels, newest first, for a stateless network; null: none
  int32_t text_labels;  // C
  bool tdt;

  RTFX_HOST_DEVICE int64_t shared_bytes() const {
    return beams.beam * (static_cast<int64_t>(sizeof(Slot)) + int64_t{text_labels} * 8);
  }
  RTFX_DEVICE bool is_token(int32_t label) const { return label >= 0 && label != beams.blank; }

  /// step_of(row, slot) for each slot of the utterance, as BeamHypotheses::append does it. The
  /// tree's column *column - 1 + `ahead` is written. merge(slots, k): the score of slot k. A slot
  /// is the same thread's throughout: that of is_mine.
  template <class Block, class StepOf, class Merge>
  RTFX_DEVICE void run(Block& block, int32_t utterance, Slot* slots, int32_t ahead,
                       const StepOf& step_of, const Merge& merge) const {
    const int32_t beam = beams.beam, first = utterance * beam;
    const int64_t column = *beams.column - 1 + ahead;
    auto* new_texts = reinterpret_cast<int64_t*>(slots + beam);
    for (int32_t k = block.thread(); k < beam; k += block.threads())
      slots[k] = taken(step_of(first + k, slots[k]), new_texts + k * text_labels);
    block.sync();  // all have read the hypotheses that write() overwrites
    for (int32_t k = block.thread(); k < beam; k += block.threads()) {
      slots[k].score = merge(slots, k);
      write(slots[k], first, k, column, new_texts + k * text_labels);
    }
  }

 private:
  RTFX_DEVICE Slot taken(const Step& step, int64_t* text) const {
    const int32_t from = step.parent, label = step.label;
    // All loads come first, so that they are in flight together.
    const int64_t hash = beams.hash[from], last_label = beams.last_label[from],
                  length = beams.lengths[from], time = beams.time[from],
                  prefix_hash = beams.prefix_hash[from], run = beams.run[from];
    const int32_t lm_state = fusion.states != nullptr ? fusion.states[from] : 0;
    const int32_t own_state = fusion.roots != nullptr ? fusion.own_states[from] : 0;
    const bool token = is_token(label);
    const int64_t moved = tdt ? step.duration : static_cast<int64_t>(label == beams.blank);
    for (int32_t i = 0; i < text_labels; ++i) {
      const int64_t* old = texts + int64_t{from} * text_labels;
      text[i] = !token ? old[i] : i == 0 ? label : old[i - 1];
    }
    return {token ? beams.extended(hash, label) : hash,
            token ? label : last_label,
            length + static_cast<int64_t>(token),
            time + moved,
            token ? hash : prefix_hash,
            moved == 0 ? run + static_cast<int64_t>(token) : 0,
            0,
            step,
            fusion.states != nullptr ? look_up(fusion.lm, lm_state, label).next : 0,
            fusion.own_next(from, own_state, label),
            0};
  }

  RTFX_DEVICE void write(const Slot& slot, int32_t first, int32_t k, int64_t column,
                         const int64_t* text) const {
    const int32_t row = first + k;
    beams.scores[row] = slot.score;
    beams.hash[row] = slot.hash;
    beams.last_label[row] = slot.last_label;
    beams.lengths[row] = slot.length;
    beams.time[row] = slot.time;
    beams.prefix_hash[row] = slot.prefix_hash;
    beams.run[row] = slot.run;
    const int64_t place = column * beams.rows() + row;
    beams.tree_labels[place] = slot.step.label;
    beams.tree_parents[place] = slot.step.parent - first;
    if (beams.tree_durations != nullptr) beams.tree_durations[place] = slot.step.duration;
    moves.parents[row] = slot.step.parent;
    moves.tokens[row] = is_token(slot.step.label) ? slot.step.label : -1;
    if (fusion.states != nullptr) fusion.states[row] = slot.lm_state;
    if (fusion.roots != nullptr) fusion.own_states[row] = slot.own_state;
    for (int32_t i = 0; i < text_labels; ++i) texts[int64_t{row} * text_labels + i] = text[i];
  }
};

/// The sum of the probabilities of all that are equal(j) to k, out of `count`, or without `add` k's
/// own, if k is the best of them (the lowest of equals); -inf for the others.
template <class ScoreOf, class Equal>
RTFX_DEVICE float merged_score(int32_t count, int32_t k, const ScoreOf& score_of,
                               const Equal& equal, bool add = true) {
  const float own = score_of(k);
  if (own == kLogZero) return own;
  float sum = 0;
  for (int32_t j = 0; j < count; ++j) {
    if (!equal(j)) continue;
    const float other = score_of(j);
    if (other > own || (j < k && !(other < own))) return kLogZero;
    sum += expf(other - own);
  }
  return add ? logf(sum) + own : own;
}

/// The same of slots with equal texts (BeamHypotheses::merge), for TDT at equal times(slot).
template <class TimeOf>
RTFX_DEVICE float merged_text(const Slot* slots, int32_t beam, int32_t k, const TimeOf& time_of) {
  if (beam == 1) return slots[k].step.score;
  const Slot& own = slots[k];
  return merged_score(
      beam, k, [&](int32_t j) { return slots[j].step.score; },
      [&](int32_t j) {
        const Slot& other = slots[j];
        return other.hash == own.hash && other.last_label == own.last_label &&
               other.length == own.length && time_of(other) == time_of(own);
      });
}

// A phase of a fused step as a kernel. A phase is a plain struct of sizes and pointers:
//   kThreads                   of each of its blocks
//   blocks()                   how many there are
//   shared_bytes()             memory that the threads of a block share
//   operator()(block, i, shared)   what block i does (algorithms/gpu/thread_block.h)

/// Made for the phases that kernels.cu lists.
template <class Phase>
struct PhaseKernel {
  /// The most that shared_bytes() may be on the current device.
  static int64_t most_shared_bytes();

  /// Enqueues the kernel. Does not wait; can be recorded into a graph. Throws std::runtime_error
  /// with CUDA's error.
  static void launch(const Phase& phase, cudaStream_t stream);
};

}  // namespace rtfx::fused_beam
