// The recursion of forced CTC alignment: the best path of a given text through the emissions of one
// utterance. The CPU and the GPU run this code, so it includes no LibTorch header.
//
// Column u = 0 .. U of the trellis stands behind u tokens y_1 .. y_u of the text. At each frame it
// has two states, whose values are the log probabilities of the best paths that end there:
//
//   token_t(u) = e_t(y_u) + max(token_t-1(u), blank_t-1(u-1), token_t-1(u-1) if y_u != y_u-1)
//   blank_t(u) = e_t(blank) + max(blank_t-1(u), token_t-1(u))
//
// Graves et al., "Connectionist Temporal Classification" (2006), section 4.1, with max in place of
// the sum. Among equal values, the first one in the formula is taken. The recursion only adds and
// compares float32 numbers, so both devices compute the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/gpu/host_device.h"

namespace rtfx {

/// The two states of one column at one frame, as log probabilities.
struct CtcColumn {
  float blank, token;
};

/// The origins of a column's states at one frame, as one byte. The byte is one of the first three
/// values, which is the origin of the token state, plus kBlankFromToken if the blank state comes
/// from the token state.
inline constexpr uint8_t kTokenStays = 0, kTokenFromBlank = 1, kTokenFromToken = 2;
inline constexpr uint8_t kTokenOrigin = 3, kBlankFromToken = 4;

/// Moves column u by one frame, and writes its origins to `from`. `here` and `before` are columns u
/// and u - 1 of the frame before; `before` does not matter for column 0. `repeats` says whether y_u
/// is y_u-1. `blank` and `token` are the emissions of blank and y_u. Column 0 has no use for
/// `token`.
RTFX_HOST_DEVICE inline CtcColumn advance_column(const CtcColumn& here, const CtcColumn& before,
                                                 bool repeats, float blank, float token,
                                                 uint8_t& from) {
  CtcColumn next = here;
  from = kTokenStays;
  if (before.blank > next.token) {
    next.token = before.blank;
    from = kTokenFromBlank;
  }
  if (!repeats && before.token > next.token) {
    next.token = before.token;
    from = kTokenFromToken;
  }
  if (here.token > next.blank) {
    next.blank = here.token;
    from |= kBlankFromToken;
  }
  next.blank += blank;
  next.token += token;
  return next;
}

/// A state of the trellis: behind `column` tokens, in the state of the last token or of blank.
struct CtcState {
  int32_t column;
  bool on_token;

  /// Returns the index of the token that the state emits, or -1 for blank.
  RTFX_HOST_DEVICE int32_t place() const { return on_token ? column - 1 : -1; }
};

/// Returns the state where the best path ends. `last` is column `columns` - 1 after the last frame.
RTFX_HOST_DEVICE inline CtcState last_state(const CtcColumn& last, int32_t columns) {
  return {columns - 1, columns > 1 && !(last.blank > last.token)};
}

/// Returns the state at the frame before. `from` holds the origins of the state's column at its own
/// frame.
RTFX_HOST_DEVICE inline CtcState state_before(const CtcState& state, uint8_t from) {
  if (!state.on_token) return {state.column, (from & kBlankFromToken) != 0};
  const uint8_t origin = from & kTokenOrigin;
  if (origin == kTokenStays) return state;
  return {state.column - 1, origin == kTokenFromToken};
}

/// A batch on the device. Row b has lengths[b] frames and text_lengths[b] tokens, for which a path
/// exists; frames and tokens behind these are not read.
struct CtcBatchArrays {
  const float* emissions;  // [B, T, labels]: natural logarithms; blank is the last label
  const int32_t* texts;    // [B, U]
  const int32_t *lengths, *text_lengths;  // [B]
  uint8_t* from;                          // [B, T, U + 1], undefined on entry
  CtcColumn* columns;  // [B, 2, U + 1], or null where they fit into shared memory
  int32_t* places;     // [B, T]: result; the index of the token at each frame, -1: blank
  float* logprobs;     // [B, T]: result; of that label
  float* scores;       // [B]: result; the log probability of the path
  int64_t batch, frames, tokens, labels;  // B, T, U, V + 1
};

/// Returns the bytes of shared memory that a row's columns take.
constexpr int64_t ctc_column_bytes(int64_t tokens) {
  return 2 * (tokens + 1) * static_cast<int64_t>(sizeof(CtcColumn));
}

/// Shared memory that every device gives a block. Rows whose columns take more keep them in
/// `columns`.
inline constexpr int64_t kCtcSharedBytes = 40 << 10;

/// Enqueues a kernel with a block of threads for each row, and does not wait for it. Throws
/// std::runtime_error if the launch fails.
void launch_ctc_alignment(const CtcBatchArrays& arrays, cudaStream_t stream);

}  // namespace rtfx
