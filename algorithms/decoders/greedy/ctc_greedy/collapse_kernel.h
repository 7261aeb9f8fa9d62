// Greedy CTC search on a GPU as one kernel. A warp reads the logits of a frame once and finds the
// best label and its log-probability. The last block of a row to finish then collapses the row's
// labels. No LibTorch header is included here.
//
//   log p(k_t | t) = -ln sum_k exp(z_k - max z),   k_t = the lowest k with z_k = max z
//
// A lane always has the same labels of a frame, and log-probabilities are added as integers. So no
// bit of a result depends on the place of a frame in its batch, nor on the order of the blocks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/gpu/precision.h"

namespace rtfx {

/// The best label of a frame.
struct BestLabel {
  int32_t marked_label;  // ~label where a logit is NaN
  float logprob;         // NaN where a logit is NaN or the greatest one is infinite
};

/// A batch on the device: B rows of up to T frames, V + 1 labels with blank as the last one. Slots
/// beyond a row's length stay undefined.
struct CtcCollapse {
  const void* logits;  // [B, T, V + 1] of `precision`; the labels of a frame lie side by side
  Precision precision;
  int64_t row_stride, frame_stride;  // of the logits, in elements
  const int64_t* lengths;            // [B] frames of each row; no more than T are read
  const bool* forbidden;             // [B, V] marks tokens that a row must not have, or null
  int64_t batch, frames, labels;     // B, T, V + 1

  // Working memory.
  BestLabel* best;         // [B, T]
  unsigned int* finished;  // [B] blocks of each row that are done: 0 before and after a launch

  // The state of streams between their pieces, which the kernel reads and writes. The pointers are
  // null for whole utterances.
  int64_t* last_label;  // [B] label of the frame before the first one
  int64_t* logprobs;    // [B] sum of the log-probabilities, in units of 1 / kLogprobUnits

  // The result, see Hypotheses. If a log-probability of a whole utterance is NaN, its score is NaN
  // and `nan` marks the row. The scores of streams leave out such frames.
  int32_t* lengths_found;   // [B]
  int32_t *tokens, *times;  // [B, T]
  float* scores;            // [B]
  bool* nan;                // [B]
};

/// Log-probabilities are added in units of 2^-32.
inline constexpr double kLogprobUnits = 4294967296;

/// Enqueues the kernel and does not wait. Throws std::runtime_error if the launch fails.
void launch_ctc_collapse(const CtcCollapse& collapse, cudaStream_t stream);

}  // namespace rtfx
