// ALSD++: what each slot of a beam takes, a block for each utterance.
#pragma once

#include "algorithms/shared/fused_beam/append.h"

namespace rtfx::fused_beam {

/// The K best of an utterance's K * K candidates become its hypotheses, and equal texts become one.
/// Without an active slot everything stays as it is.
struct Choose {
  static constexpr int32_t kThreads = 256;

  Append append;
  Candidates candidates;
  bool merge_finished;  // TDT: at whatever frames behind the end
  bool* any_active;     // [1], set if a slot is active after the step

  int32_t blocks() const { return append.beams.batch; }
  int64_t shared_bytes() const { return append.shared_bytes(); }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    const Beams& beams = append.beams;
    const int32_t beam = beams.beam, first = utterance * beam;
    const int64_t frames = beams.frames[utterance];
    auto* slots = static_cast<Slot*>(shared);
    const bool leads = utterance == 0 && block.thread() == 0;
    const int32_t buffer = leads ? *append.moves.state_buffer : 0;

    // Candidates are chosen even if no slot is active: asking first would take another barrier.
    bool active = false;
    for (int32_t k = block.thread(); k < beam; k += block.threads())
      active |= beams.active(first + k);
    candidates.best(block, utterance, beam, candidates.scores, [&](int32_t k, MaxKey key) {
      if (is_mine(block, k)) slots[k].candidate = key;
    });
    const bool open = block.all_reduce(active, Either{});
    append.run(
        block, utterance, slots, 0,
        [&](int32_t row, const Slot& slot) {
          return open ? candidates.step(utterance, beam, slot.candidate)
                      : Step{row, -1, 0, beams.scores[row]};
        },
        [&](const Slot* all, int32_t k) {
          return merged_text(all, beam, k, [&](const Slot& slot) -> int64_t {
            if (!append.tdt) return 0;
            return merge_finished && slot.time > frames ? frames : slot.time;
          });
        });

    active = false;
    for (int32_t k = block.thread(); k < beam; k += block.threads())
      active |= slots[k].score > kLogZero && slots[k].time < frames;
    if (block.all_reduce(active, Either{}) && block.thread() == 0) *any_active = true;
    if (leads) *append.moves.state_buffer = 1 - buffer;
  }
};

}  // namespace rtfx::fused_beam
