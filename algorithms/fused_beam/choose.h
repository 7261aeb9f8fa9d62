// ALSD++: what each slot of a beam takes, a block for each utterance.
#pragma once

#include "algorithms/fused_beam/append.h"

namespace rtfx::fused_beam {

/// The K best of an utterance's K * K candidates become its hypotheses, and equal texts become one.
/// Without an active slot everything stays as it is.
struct Choose {
  Append append;
  Candidates candidates;
  bool merge_finished;  // TDT: at whatever frames behind the end
  bool* any_active;     // [1], set if a slot is active after the step

  int32_t blocks() const { return append.beams.batch; }
  int64_t shared_bytes() const { return append.shared_bytes(); }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    const Beams& beams = append.beams;
    const int64_t frames = beams.frames[utterance];
    auto* slots = static_cast<Slot*>(shared);
    const bool open = any_of(block, beams, utterance);
    if (open) {
      candidates.best(block, utterance, beams.beam, candidates.scores, [&](int32_t k, Key key) {
        if (is_mine(block, k)) slots[k].candidate = key;
      });
    }
    block.sync();
    append.run(
        block, utterance, slots, 0,
        [&](int32_t row, const Slot& slot) {
          return open ? candidates.step(utterance, beams.beam, slot.candidate)
                      : Step{row, -1, 0, beams.scores[row]};
        },
        [&](const Slot* all, int32_t k) {
          return merged_text(all, beams.beam, k, [&](const Slot& slot) -> int64_t {
            if (!append.tdt) return 0;
            return merge_finished && slot.time > frames ? frames : slot.time;
          });
        });
    if (any_of(block, beams, utterance) && block.thread() == 0) *any_active = true;
  }

 private:
  /// Whether a slot is active.
  template <class Block>
  RTFX_DEVICE static bool any_of(Block& block, const Beams& beams, int32_t utterance) {
    int32_t any = 0;
    for (int32_t k = block.thread(); k < beams.beam; k += block.threads())
      any |= static_cast<int32_t>(beams.active(utterance * beams.beam + k));
    return block.all(any, [](int32_t a, int32_t b) { return a | b; }) != 0;
  }
};

}  // namespace rtfx::fused_beam
