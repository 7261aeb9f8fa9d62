// Fused beam searches: the arrays that their phases share, and one step of the hypotheses of a
// beam. A phase is a plain struct of sizes and pointers, and a GPU runs each phase as one kernel
// (PhaseKernel). The threads of a CPU run the same code, so this file includes no LibTorch header.
//
// B utterances have K slots each. R = B * K rows: row b * K + k is slot k of utterance b.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#include "algorithms/gpu/ordered_key.h"
#include "algorithms/gpu/thread_block.h"
#include "algorithms/log_zero.h"
#include "algorithms/shared/beams/alignment_rule.h"
#include "algorithms/shared/ngram_lm/view.h"
#include "base/gpu/precision.h"

namespace rtfx::fused_beam {

/// Returns a * b, rounded. LibTorch's operators round each product; a fused multiply-add does not.
RTFX_DEVICE inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);  // the compiler must not contract it with a sum that follows
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

/// The arrays of BeamHypotheses, and the lengths of the utterances in frames.
struct Beams {
  int32_t batch, beam, blank;
  int64_t hash_multiplier;
  const int64_t* frames;                                            // [B]
  float* scores;                                                    // [R]
  int64_t *hash, *last_label, *lengths, *time, *prefix_hash, *run;  // [R]
  int32_t *tree_labels, *tree_parents, *tree_durations;             // [C, R]; durations: TDT
  int64_t* column;                                                  // [1]

  RTFX_HOST_DEVICE int32_t rows() const { return batch * beam; }
  /// Returns the hash of a text with `hash` followed by `token`.
  RTFX_DEVICE int64_t extended(int64_t hash, int32_t token) const {
    const auto bits = static_cast<uint64_t>(hash) * static_cast<uint64_t>(hash_multiplier);
    return static_cast<int64_t>(bits + 1 + static_cast<uint64_t>(token));
  }
  /// Returns whether the row holds a hypothesis with a frame left.
  RTFX_DEVICE bool active(int32_t row) const {
    const float score = scores[row];
    return frames_left(row) > 0 && score > kLogZero;
  }
  RTFX_DEVICE int64_t frames_left(int32_t row) const { return frames[row / beam] - time[row]; }
};

/// Shallow fusion with a language model (ngram_lm/fusion.h) and contextual biasing (DeviceBias).
/// `states` is null without a language model, and `bias_roots` is null without biasing.
struct Fusion {
  NgramView lm;
  int32_t* states;  // [R]
  float alpha, beta;
  bool full;                   // lm_weighted_full: blank is rescaled along with the tokens
  float blank_scale;           // 1 + alpha
  float least_log_rest;        // lower bound of ln(1 - p(blank))
  bool early;                  // labels are chosen by acoustic scores
  bool acoustic_forced_blank;  // a blank after max_symbols tokens is not fused
  NgramView bias_models;
  const int32_t* bias_roots;   // [R]
  int32_t* bias_states;        // [R], relative to the row's root
  const float* blank_weights;  // [R] with which biasing rescales blank; null: it does not

  RTFX_HOST_DEVICE bool any() const { return states != nullptr || bias_roots != nullptr; }
  RTFX_DEVICE float bias_blank_weight(int32_t row) const {
    return blank_weights != nullptr ? blank_weights[row] : 0.0f;
  }
  /// Returns the biasing score of a token in a state of the row.
  RTFX_DEVICE float bias_score(int32_t row, int32_t bias_state, int32_t token) const {
    return bias_roots != nullptr ? look_up(bias_models, bias_roots[row] + bias_state, token).score
                                 : 0.0f;
  }
  /// Returns the biasing state after a label.
  RTFX_DEVICE int32_t bias_next(int32_t row, int32_t bias_state, int32_t label) const {
    if (bias_roots == nullptr) return 0;
    const int32_t next = look_up(bias_models, bias_roots[row] + bias_state, label).next;
    return next == 0 ? 0 : next - bias_roots[row];
  }
};

/// How each row of this step follows from the step before. The prediction network reads it.
struct Moves {
  int32_t* parents;  // [R] row of the parent
  int32_t* tokens;   // [R] token, or -1 if the row has the text of its parent
  /// [1] 0 or 1: the buffer into which new LSTM states go. The other buffer holds the states before
  /// the step.
  int32_t* state_buffer;
};

/// Finds the k greatest of key_at(0 .. n - 1), k <= n, without sorting them. Every thread calls
/// visit(i, key) for the i-th greatest, i < k. Each thread remembers the best of its own indices,
/// and searches them again only after that one was chosen. A thread with a single index never
/// searches again.
template <ReducingBlock Block, class KeyAt, class Visit>
RTFX_DEVICE void select(Block& block, int32_t n, int32_t k, const KeyAt& key_at,
                        const Visit& visit) {
  const auto best_below = [&](MaxKey bound) {
    MaxKey best = 0;
    for (int32_t j = block.thread(); j < n; j += block.threads()) {
      const MaxKey key = key_at(j);
      if (key < bound && key > best) best = key;
    }
    return best;
  };
  const bool has_more = block.thread() + block.threads() < n;
  MaxKey own = best_below(~MaxKey{0});
  for (int32_t i = 0; i < k; ++i) {
    const MaxKey greatest = block.all_reduce(own, Maximum{});
    visit(i, greatest);
    if (own == greatest && i + 1 < k) own = has_more ? best_below(greatest) : 0;
  }
}

/// Returns whether index i belongs to this thread. Each index belongs to one thread.
template <ThreadBlock Block>
RTFX_DEVICE bool is_mine(const Block& block, int32_t i) {
  return block.thread() == i % block.threads();
}

/// One step of a slot: it becomes hypothesis `parent` (a row) followed by `label`.
struct Step {
  int32_t parent, label, duration;
  float score;
};

/// The N candidates of each row: labels that may follow its hypothesis.
struct Candidates {
  float* scores;       // [R, N] score of the hypothesis with the candidate
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
  /// Writes candidate i, and scores of -inf for the row's other candidates.
  template <ReducingBlock Block>
  RTFX_DEVICE void write_alone(Block& block, int32_t row, int32_t i, float score, int32_t label,
                               int32_t duration) const {
    for (int32_t j = block.thread(); j < count; j += block.threads())
      write(row, j, j == i ? score : kLogZero, label, duration);
  }

  /// Calls visit(k, key) for the `beam` best candidates of an utterance, as select() does. `ranks`
  /// [R, N] decides; it may be `scores`.
  template <ReducingBlock Block, class Visit>
  RTFX_DEVICE void best(Block& block, int32_t utterance, int32_t beam, const float* ranks,
                        const Visit& visit) const {
    const float* own = ranks + int64_t{utterance} * beam * count;
    select(
        block, beam * count, beam, [&](int32_t i) { return max_key(own[i], i); }, visit);
  }
  /// Returns the step that a key of best() stands for.
  RTFX_DEVICE Step step(int32_t utterance, int32_t beam, MaxKey key) const {
    const int32_t index = index_of(key), first = utterance * beam;
    const int64_t place = int64_t{first} * count + index;
    return {first + index / count, labels[place], durations != nullptr ? durations[place] : 0,
            value_of(key)};
  }
};

/// A hypothesis after its step, in memory that a block shares, before it is written.
struct Slot {
  int64_t hash, last_label, length, time, prefix_hash, run;
  MaxKey candidate;  // key of the candidate that the slot becomes
  Step step;
  int32_t lm_state, bias_state;
  float score;  // after equal texts were merged
};

/// Moves the hypotheses of an utterance by one step and merges those of equal text. A block of
/// threads works on one utterance.
struct Append {
  Beams beams;
  Fusion fusion;
  Moves moves;
  int64_t* texts;       // [R, C] last labels, newest first, of a stateless network; else null
  int32_t text_labels;  // C
  AlignmentRule rule;

  RTFX_HOST_DEVICE int64_t shared_bytes() const {
    return beams.beam * (static_cast<int64_t>(sizeof(Slot)) + int64_t{text_labels} * 8);
  }
  RTFX_DEVICE bool is_token(int32_t label) const { return label >= 0 && label != beams.blank; }

  /// Does step_of(row, slot) for each slot of the utterance, as BeamHypotheses::append() does, and
  /// writes column *column - 1 + `ahead` of the tree. merge(slots, k) returns the score of slot k.
  /// Each slot belongs to one thread throughout, the one for which is_mine() holds.
  template <ReducingBlock Block, class StepOf, class Merge>
  RTFX_DEVICE void run(Block& block, int32_t utterance, Slot* slots, int32_t ahead,
                       const StepOf& step_of, const Merge& merge) const {
    const int32_t beam = beams.beam, first = utterance * beam;
    const int64_t column = *beams.column - 1 + ahead;
    auto* new_texts = reinterpret_cast<int64_t*>(slots + beam);
    for (int32_t k = block.thread(); k < beam; k += block.threads())
      slots[k] = moved_by(step_of(first + k, slots[k]), new_texts + k * text_labels);
    block.sync();  // all have read the hypotheses that write() overwrites
    for (int32_t k = block.thread(); k < beam; k += block.threads()) {
      slots[k].score = merge(slots, k);
      write(slots[k], first, k, column, new_texts + k * text_labels);
    }
  }

 private:
  /// Returns the hypothesis after its step, and writes its last labels to `text`.
  RTFX_DEVICE Slot moved_by(const Step& step, int64_t* text) const {
    const int32_t from = step.parent, label = step.label;
    // All loads come first, so that they are in flight together.
    const int64_t hash = beams.hash[from], last_label = beams.last_label[from],
                  length = beams.lengths[from], time = beams.time[from],
                  prefix_hash = beams.prefix_hash[from], run = beams.run[from];
    const int32_t lm_state = fusion.states != nullptr ? fusion.states[from] : 0;
    const int32_t bias_state = fusion.bias_roots != nullptr ? fusion.bias_states[from] : 0;
    const bool token = is_token(label);
    const int64_t moved = label < 0 ? 0 : frames_moved(rule, label == beams.blank, step.duration);
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
            fusion.bias_next(from, bias_state, label),
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
    if (fusion.bias_roots != nullptr) fusion.bias_states[row] = slot.bias_state;
    for (int32_t i = 0; i < text_labels; ++i) texts[int64_t{row} * text_labels + i] = text[i];
  }
};

/// Returns the merged score of hypothesis k among `count`. equal(j) says whether hypothesis j is
/// equal to k. The best of equal hypotheses (the lowest index among equal scores) gets the sum of
/// their probabilities, or keeps its own score without `add`. The others get -inf.
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

/// Returns merged_score() of slot k, where slots with equal texts and equal time_of(slot) are
/// equal. See BeamHypotheses::merge().
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

/// Runs a phase as a kernel. A phase is a plain struct with
///   kThreads                       threads of a block
///   blocks()                       number of blocks
///   shared_bytes()                 memory that the threads of a block share
///   operator()(block, i, shared)   the work of block i (algorithms/gpu/thread_block.h)
/// kernels.cu lists the phases for which this template exists.
template <class Phase>
struct PhaseKernel {
  /// Returns the upper bound of shared_bytes() on the current device.
  static int64_t most_shared_bytes();

  /// Enqueues the kernel. Does not wait; can be recorded into a graph. Throws std::runtime_error
  /// with CUDA's error.
  static void launch(const Phase& phase, cudaStream_t stream);
};

}  // namespace rtfx::fused_beam
