// The step of hypotheses in the arrays of a beam, and the sum of those with equal texts: by a block
// for each utterance.
#pragma once

#include <cmath>

#include "algorithms/shared/fused_beam/candidates.h"

namespace rtfx::fused_beam {

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

}  // namespace rtfx::fused_beam
