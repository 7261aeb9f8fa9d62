// What each slot of a beam takes, and the step of its hypothesis: a block for each utterance.
#pragma once

#include <cmath>

#include "algorithms/fused_beam/arrays.h"
#include "algorithms/fused_beam/select.h"

namespace rtfx::fused_beam {

/// The K best of an utterance's K * K candidates become its hypotheses: the tree's last column,
/// scores, hashes, times, the language model's states, the labels that a stateless prediction
/// network looks at. Then equal texts become one (BeamHypotheses::merge). Without an active slot
/// everything stays as it is.
struct Choose {
  Beams beams;
  Fusion fusion;
  Candidates candidates;
  Moves moves;
  int64_t* texts;       // [R, C] last labels, newest first; null: none
  int32_t text_labels;  // C
  bool merge_finished;  // TDT: at whatever frames behind the end
  bool* any_active;     // [1], set if a slot is active after the step

  int32_t blocks() const { return beams.batch; }
  int64_t shared_bytes() const {
    return beams.beam * (static_cast<int64_t>(sizeof(Slot)) + int64_t{text_labels} * 8);
  }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    const int32_t beam = beams.beam, first = utterance * beam;
    auto* slots = static_cast<Slot*>(shared);
    auto* new_texts = reinterpret_cast<int64_t*>(slots + beam);
    const auto either = [](int32_t a, int32_t b) { return a | b; };

    int32_t open = 0;
    for (int32_t k = block.thread(); k < beam; k += block.threads())
      open |= static_cast<int32_t>(beams.active(first + k));
    open = block.all(open, either);
    if (open != 0) {
      const int64_t own = int64_t{first} * beam;
      select(
          block, beam * beam, beam,
          [&](int32_t i) { return key_of(candidates.scores[own + i], i); },
          [&](int32_t k, Key key) {
            if (is_mine(block, k)) slots[k].candidate = key;
          });
    }
    block.sync();
    for (int32_t k = block.thread(); k < beam; k += block.threads())
      take(slots[k], first, first + k, open != 0, new_texts + k * text_labels);
    block.sync();  // nobody needs the step before any more
    int32_t left = 0;
    for (int32_t k = block.thread(); k < beam; k += block.threads()) {
      write(slots, first, k, new_texts + k * text_labels);
      left |= static_cast<int32_t>(beams.active(first + k));
    }
    left = block.all(left, either);
    if (left != 0 && block.thread() == 0) *any_active = true;
  }

 private:
  struct Slot {
    int64_t hash, last_label, length, time, prefix_hash, run;
    Key candidate;
    float score;
    int32_t parent, label, duration, lm_state;

    RTFX_DEVICE bool is_token(int32_t blank) const { return label >= 0 && label != blank; }
  };

  /// As BeamHypotheses::append does.
  RTFX_DEVICE void take(Slot& slot, int32_t first, int32_t row, bool open, int64_t* text) const {
    slot.parent = row;
    slot.label = -1;
    slot.duration = 0;
    slot.score = beams.scores[row];
    if (open) {
      const int32_t index = index_of(slot.candidate);
      const int64_t place = int64_t{first} * beams.beam + index;
      slot.parent = first + index / beams.beam;
      slot.label = candidates.labels[place];
      slot.score = value_of(slot.candidate);
      if (candidates.durations != nullptr && slot.label >= 0)
        slot.duration = candidates.durations[place];
    }
    const int32_t from = slot.parent;
    const bool token = slot.is_token(beams.blank), tdt = candidates.durations != nullptr;
    const int64_t moved = tdt ? slot.duration : static_cast<int64_t>(slot.label == beams.blank);
    slot.hash = beams.hash[from];
    slot.last_label = token ? slot.label : beams.last_label[from];
    slot.length = beams.lengths[from] + static_cast<int64_t>(token);
    slot.time = beams.time[from] + moved;
    slot.prefix_hash = token ? slot.hash : beams.prefix_hash[from];
    slot.run = moved == 0 ? beams.run[from] + static_cast<int64_t>(token) : 0;
    if (token) slot.hash = extended(slot.hash, slot.label);
    if (fusion.states != nullptr)
      slot.lm_state = look_up(fusion.lm, fusion.states[from], slot.label).next;
    for (int32_t i = 0; i < text_labels; ++i) {
      const int64_t* old = texts + int64_t{from} * text_labels;
      text[i] = !token ? old[i] : i == 0 ? slot.label : old[i - 1];
    }
  }

  RTFX_DEVICE int64_t extended(int64_t hash, int32_t label) const {
    const auto bits = static_cast<uint64_t>(hash) * static_cast<uint64_t>(beams.hash_multiplier);
    return static_cast<int64_t>(bits + 1 + static_cast<uint64_t>(label));
  }

  RTFX_DEVICE void write(const Slot* slots, int32_t first, int32_t k, const int64_t* text) const {
    const Slot& slot = slots[k];
    const int32_t row = first + k;
    beams.scores[row] = merged_score(slots, k, beams.frames[first / beams.beam]);
    beams.hash[row] = slot.hash;
    beams.last_label[row] = slot.last_label;
    beams.lengths[row] = slot.length;
    beams.time[row] = slot.time;
    beams.prefix_hash[row] = slot.prefix_hash;
    beams.run[row] = slot.run;
    const int64_t place = (*beams.column - 1) * beams.rows() + row;
    beams.tree_labels[place] = slot.label;
    beams.tree_parents[place] = slot.parent - first;
    if (beams.tree_durations != nullptr) beams.tree_durations[place] = slot.duration;
    moves.parents[row] = slot.parent;
    moves.tokens[row] = slot.is_token(beams.blank) ? slot.label : -1;
    if (fusion.states != nullptr) fusion.states[row] = slot.lm_state;
    for (int32_t i = 0; i < text_labels; ++i) texts[int64_t{row} * text_labels + i] = text[i];
  }

  /// The sum of the probabilities of all slots with this one's text, if this is the best of them
  /// (the lowest of equals); -inf for the others.
  RTFX_DEVICE float merged_score(const Slot* slots, int32_t k, int64_t frames) const {
    const float own = slots[k].score;
    if (beams.beam == 1 || own == kNothing) return own;
    for (int32_t j = 0; j < beams.beam; ++j) {
      const float other = slots[j].score;
      const bool better = other > own || (j < k && !(other < own));
      if (better && equal(slots[j], slots[k], frames)) return kNothing;
    }
    float sum = 0;
    for (int32_t j = 0; j < beams.beam; ++j)
      if (equal(slots[j], slots[k], frames)) sum += expf(slots[j].score - own);
    return logf(sum) + own;
  }

  RTFX_DEVICE bool equal(const Slot& a, const Slot& b, int64_t frames) const {
    if (a.hash != b.hash || a.last_label != b.last_label || a.length != b.length) return false;
    if (candidates.durations == nullptr || a.time == b.time) return true;
    return merge_finished && a.time >= frames && b.time >= frames;
  }
};

}  // namespace rtfx::fused_beam
