// The back-trace turns the tree of a batch's beams into token sequences. A thread follows one
// hypothesis from its last column to its first. The CPU and the GPU run this code, so it includes
// no LibTorch header.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "algorithms/shared/beams/alignment_rule.h"
#include "base/gpu/host_device.h"

namespace rtfx {

/// The arrays of BeamHypotheses and NBest as pointers.
struct BacktraceArrays {
  const int32_t *labels, *parents;  // [C, B, K]
  const int32_t* durations;         // [C, B, K], null unless TDT
  const int64_t* column;            // [1]
  const int64_t *lengths, *time;    // [B, K]
  const int64_t* order;             // [B, N]
  int32_t *tokens, *frames;         // [B, N, capacity]
  int32_t* token_durations;         // [B, N, capacity], null unless TDT
  int64_t batch, beam, nbest, capacity;
  int32_t blank;
  AlignmentRule rule;
};

/// Writes entry n of the list of utterance b. The durations of a path sum up to its last frame, so
/// the frame of each label is known on the way back.
RTFX_HOST_DEVICE inline void trace_back(const BacktraceArrays& a, int64_t b, int64_t n) {
  const int64_t row = b * a.nbest + n;
  int64_t slot = a.order[row];
  int64_t left = a.lengths[b * a.beam + slot];  // tokens still to be found
  int64_t time = a.time[b * a.beam + slot];
  const auto index = [&a, b](int64_t column, int64_t k) {
    return (column * a.batch + b) * a.beam + k;
  };
  for (int64_t c = *a.column - 1; left > 0 && c >= 0; --c) {
    const int64_t here = index(c, slot);
    const int32_t label = a.labels[here];
    slot = a.parents[here];
    if (label < 0) continue;
    const int32_t duration =
        frames_moved(a.rule, label == a.blank, a.durations ? a.durations[here] : 0);
    time -= duration;
    if (label == a.blank) continue;
    if (a.rule == AlignmentRule::ctc && c > 0 && a.labels[index(c - 1, slot)] == label) continue;
    --left;
    a.tokens[row * a.capacity + left] = label;
    a.frames[row * a.capacity + left] = static_cast<int32_t>(time);
    if (a.token_durations) a.token_durations[row * a.capacity + left] = duration;
  }
}

/// Enqueues a kernel with a thread for each entry, and does not wait for it. Throws
/// std::runtime_error if the launch fails.
void launch_backtrace(const BacktraceArrays& arrays, cudaStream_t stream);

}  // namespace rtfx
