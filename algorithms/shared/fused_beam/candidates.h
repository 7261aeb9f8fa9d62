// What may follow each hypothesis, and the best of it for an utterance.
#pragma once

#include "algorithms/shared/fused_beam/arrays.h"
#include "algorithms/shared/fused_beam/select.h"

namespace rtfx::fused_beam {

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

}  // namespace rtfx::fused_beam
