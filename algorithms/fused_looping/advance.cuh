// advance: what the rows make of the best tokens (emissions, times, who is active, who has found a
// token), by one block, or by every block on rows of its own; and how a search starts and finishes.
#pragma once

#include "algorithms/fused_looping/scratch.cuh"

namespace rtfx::fused {

/// A token of row b at `frame`.
__device__ inline void emit(const Search& s, const Rows& rows, int b, unsigned long long token,
                            int frame, int duration, bool writes) {
  rows.before[b] = rows.label[b];
  rows.label[b] = key_index(token);
  rows.run[b] = rows.last_frame[b] == frame ? rows.run[b] + 1 : 1;
  rows.last_frame[b] = frame;
  rows.score[b] += key_value(token);
  rows.parity[b] ^= 1;
  rows.emitted[b] = 1;
  const int count = rows.count[b]++;
  if (!writes || count >= s.capacity) return;
  const size_t slot = static_cast<size_t>(b) * s.capacity + count;
  s.tokens[slot] = key_index(token);
  s.token_frames[slot] = frame;
  if (s.model.durations > 0) s.token_durations[slot] = duration;
}

/// Follows the decisions of one row over the frames that were looked at, to its next token or past
/// them.
__device__ inline void advance_row(const Search& s, const Rows& rows, int slot,
                                   const unsigned long long* keys, bool writes) {
  const int b = rows.active[slot], window = rows.counts[kWindow];
  int time = rows.time[b];
  const int looked = min(window, rows.length[b] - time);
  const bool tdt = s.model.durations > 0;
  rows.emitted[b] = 0;
  for (int i = 0; i < looked;) {
    const unsigned long long token = __ldcg(keys + slot * window + i);
    const int duration =
        tdt ? s.model.duration_values[key_index(__ldcg(keys + s.key_rows + slot * window + i))] : 0;
    if (key_index(token) == s.model.blank) {
      const int step = tdt ? max(duration, 1) : 1;
      i += step;
      time += step;
      continue;
    }
    emit(s, rows, b, token, time, duration, writes);
    time += duration;
    // max_symbols tokens at one frame: the search must move on.
    if (duration == 0 && rows.run[b] >= s.max_symbols) ++time;
    break;
  }
  rows.time[b] = time;
}

/// Makes the lists of rows for the next phases from the rows in `active`.
__device__ inline void list_rows(const Search& s, const Rows& rows, int candidates) {
  if (threadIdx.x < 32) {
    int active = 0, found = 0;
    for (int base = 0; base < candidates; base += 32) {
      const int slot = base + threadIdx.x;
      const int b = slot < candidates ? rows.active[slot] : 0;
      const bool stays = slot < candidates && rows.time[b] < rows.length[b];
      const bool has_token = stays && rows.emitted[b];
      const unsigned stay_mask = __ballot_sync(0xffffffffu, stays);
      const unsigned token_mask = __ballot_sync(0xffffffffu, has_token);
      const unsigned before = (1u << threadIdx.x) - 1;
      if (stays) rows.active[active + __popc(stay_mask & before)] = b;
      if (has_token) rows.found[found + __popc(token_mask & before)] = b;
      active += __popc(stay_mask);
      found += __popc(token_mask);
    }
    if (threadIdx.x == 0) {
      rows.counts[kActive] = active;
      rows.counts[kFound] = found;
      rows.counts[kPredictions] += found > 0;
      rows.counts[kWindow] = min(max(s.row_budget / max(active, 1), 1), s.max_window);
    }
  }
  __syncthreads();
}

/// The start: every row that has frames "found" the start symbol.
__device__ inline void start_rows(const Search& s, const Rows& rows) {
  for (int b = threadIdx.x; b < s.batch; b += blockDim.x) {
    rows.length[b] = min(max(static_cast<int>(s.lengths[b]), 0), s.frames);
    rows.time[b] = rows.run[b] = rows.count[b] = 0;
    rows.label[b] = rows.before[b] = s.model.blank;
    rows.last_frame[b] = -1;
    rows.parity[b] = rows.emitted[b] = 1;
    rows.score[b] = 0;
    rows.active[b] = b;
  }
  if (threadIdx.x < kCounts) rows.counts[threadIdx.x] = 0;
  __syncthreads();
  list_rows(s, rows, s.batch);
}

/// `writes`: this block stores the tokens.
__device__ inline void advance(const Search& s, const Rows& rows, bool writes) {
  const int candidates = rows.counts[kActive];
  const unsigned long long* keys = keys_of(s, rows.counts[kSteps]);
  for (int slot = threadIdx.x; slot < candidates; slot += blockDim.x)
    advance_row(s, rows, slot, keys, writes);
  __syncthreads();
  if (threadIdx.x == 0) {
    rows.counts[kJointRows] += candidates * rows.counts[kWindow];
    rows.counts[kSteps] += candidates > 0;
  }
  list_rows(s, rows, candidates);
}

/// One block.
__device__ inline void finish(const Search& s, const Rows& rows) {
  for (int b = threadIdx.x; b < s.batch; b += blockDim.x) {
    s.token_counts[b] = min(rows.count[b], s.capacity);
    s.scores[b] = rows.score[b];
    s.nan[b] = __ldcg(s.saw_nan + b) != 0 || rows.score[b] != rows.score[b];
  }
  if (threadIdx.x < kCounts) s.totals[threadIdx.x] = rows.counts[threadIdx.x];
}

/// Marks rows with a NaN in a valid frame.
template <class T>
__device__ void scan_for_nan(const Search& s, int chunks) {
  constexpr int n = 16 / sizeof(T);
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
  for (int row = warp; row < s.batch * s.frames; row += gridDim.x * kWarps) {
    const int b = row / s.frames;
    if (row % s.frames >= s.lengths[b]) continue;
    const uint4* values =
        static_cast<const uint4*>(s.encoded) + static_cast<size_t>(row) * chunks * 4;
    bool seen = false;
    for (int i = lane; i < chunks * 4; i += 32) {
      const uint4 part = __ldg(values + i);
      const T* x = reinterpret_cast<const T*>(&part);
#pragma unroll
      for (int j = 0; j < n; ++j) seen |= to_float(x[j]) != to_float(x[j]);
    }
    if (seen) s.saw_nan[b] = 1;
  }
}

}  // namespace rtfx::fused
