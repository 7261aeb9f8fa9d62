// advance() applies the best tokens to the rows. It updates tokens, times, the list of active rows,
// and the list of rows that found a token. One block does it, or every block does it on its own
// copy of the rows. The start and the end of a search are here too.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"

namespace rtfx::fused {

/// Adds a token to row b at `frame`. With `writes`, it also stores the token in the result.
__device__ inline void emit(const Search& s, const Rows& rows, int b, MaxKey token, int frame,
                            int duration, bool writes) {
  rows[b].before = rows[b].label;
  rows[b].label = index_of(token);
  rows[b].run = rows[b].last_frame == frame ? rows[b].run + 1 : 1;
  rows[b].last_frame = frame;
  rows[b].score += value_of(token);
  rows[b].state_buffer ^= 1;
  rows[b].emitted = 1;
  const int count = rows[b].count++;
  if (!writes || count >= s.capacity) return;
  const size_t slot = static_cast<size_t>(b) * s.capacity + count;
  s.tokens[slot] = index_of(token);
  s.token_frames[slot] = frame;
  if (s.model.durations > 0) s.token_durations[slot] = duration;
}

/// Follows the decisions of one row over the frames of its window, to its next token or past them.
/// `tokens` and `durations` hold the row's best keys of each frame.
__device__ inline void advance_row(const Search& s, const Rows& rows, int slot,
                                   const MaxKey* tokens, const MaxKey* durations, bool writes) {
  const int b = rows[slot].active, window = rows.counts[kWindow];
  int time = rows[b].time;
  const int looked = min(window, rows[b].length - time);
  const bool tdt = s.model.durations > 0;
  rows[b].emitted = 0;
  for (int i = 0; i < looked;) {
    const MaxKey token = tokens[i];
    const int duration = tdt ? s.model.duration_values[index_of(durations[i])] : 0;
    if (index_of(token) >= s.model.blank) {
      const int step =
          tdt ? max(duration, 1) : s.model.duration_values[index_of(token) - s.model.blank];
      i += step;
      time += step;
      continue;
    }
    emit(s, rows, b, token, time, duration, writes);
    time += duration;
    // After max_symbols tokens at one frame, the search must move on.
    if (duration == 0 && rows[b].run >= s.max_symbols) ++time;
    break;
  }
  rows[b].time = time;
}

/// Makes the lists of rows for the next phases, from the first `candidates` entries of `active`.
__device__ inline void list_rows(const Search& s, const Rows& rows, int candidates) {
  if (threadIdx.x < kWarpSize) {
    int active = 0, found = 0;
    for (int base = 0; base < candidates; base += kWarpSize) {
      const int slot = base + threadIdx.x;
      const int b = slot < candidates ? rows[slot].active : 0;
      const bool stays = slot < candidates && rows[b].time < rows[b].length;
      // A token that ends a piece still updates the state, from which the next piece goes on.
      const bool goes_on = stays || (s.carried_rows != nullptr && slot < candidates);
      const bool has_token = goes_on && rows[b].emitted;
      const unsigned stay_mask = __ballot_sync(0xffffffffu, stays);
      const unsigned token_mask = __ballot_sync(0xffffffffu, has_token);
      const unsigned before = (1u << threadIdx.x) - 1;
      __syncwarp();  // every lane has read `active` before one writes to it
      if (stays) rows[active + __popc(stay_mask & before)].active = b;
      if (has_token) rows[found + __popc(token_mask & before)].found = b;
      active += __popc(stay_mask);
      found += __popc(token_mask);
    }
    if (threadIdx.x == 0) {
      rows.counts[kActive] = active;
      rows.counts[kFound] = found;
      rows.counts[kPredictions] += found > 0;
      rows.counts[kWindow] = min(max(s.row_budget / max(active, 1), s.min_window), s.max_window);
    }
  }
  SearchBarrier::sync();
}

/// Initialises the states and the first keys. The next phase must wait for all blocks.
__device__ inline void start_states(const Search& s) {
  const int first = blockIdx.x * kThreads + threadIdx.x, step = gridDim.x * kThreads;
  const int vectors = s.state_bytes / static_cast<int>(sizeof(uint4));
  auto* states = reinterpret_cast<uint4*>(s.state);
  const auto* carried = reinterpret_cast<const uint4*>(s.carried_state);
#pragma unroll 1
  for (int i = first; i < s.batch * vectors; i += step) {
    if (carried != nullptr) {
      states[i] = carried[i];
    } else {
      states[i] = s.state_after_start != nullptr ? s.state_after_start[i % vectors] : uint4{};
    }
  }
#pragma unroll 1
  for (int i = first; i < s.key_kinds * s.key_rows; i += step) keys_of(s, 0)[i] = 0;
}

/// Initialises the rows. Every row that has frames counts as one that found the start symbol,
/// unless the state after it is known.
__device__ inline void start_rows(const Search& s, const Rows& rows) {
#pragma unroll 1
  for (int b = threadIdx.x; b < s.batch; b += kThreads) {
    rows[b].length = min(max(static_cast<int>(s.lengths[b]), 0), s.frames);
    rows[b].time = rows[b].run = rows[b].count = 0;
    rows[b].label = rows[b].before = s.model.blank;
    rows[b].last_frame = -1;
    rows[b].state_buffer = 1;
    rows[b].emitted = s.state_after_start == nullptr;
    rows[b].score = 0;
    rows[b].active = b;
    if (s.carried_rows == nullptr) continue;
    const CarriedRow& row = s.carried_rows[b];
    rows[b].time = row.time;
    rows[b].label = row.label;
    rows[b].before = row.before;
    rows[b].last_frame = row.last_frame;
    rows[b].run = row.run;
    rows[b].state_buffer = row.state_buffer;
    rows[b].score = row.score;
    rows[b].emitted = 0;
  }
  if (threadIdx.x < kCounts) rows.counts[threadIdx.x] = 0;
  SearchBarrier::sync();
  list_rows(s, rows, s.batch);
}

/// Applies the best tokens of a step to the rows. With `writes`, this block stores the tokens.
__device__ inline void advance(const Search& s, const Rows& rows, bool writes, Scratch& scratch) {
  const int candidates = rows.counts[kActive], window = rows.counts[kWindow];
  const MaxKey* keys = keys_of(s, rows.counts[kSteps]);
  // Which key of a row is needed next depends on the last one, and each read goes past the L1
  // cache. So all keys are copied to shared memory first.
  constexpr int kStaged = sizeof(Partials) / 2 / sizeof(MaxKey);  // frames
  auto* tokens = reinterpret_cast<MaxKey*>(&scratch.partials);
  auto* durations = tokens + kStaged;
  const int slots = kStaged / window;
  for (int first = 0; first < candidates; first += slots) {
    const int here = min(slots, candidates - first);
#pragma unroll 1
    for (int i = threadIdx.x; i < here * window; i += kThreads) {
      const MaxKey* key = keys + first * window + i;
      const MaxKey best = __ldcg(key),
                   sum = s.bonus != nullptr ? __ldcg(key + 2 * s.key_rows) : best;
      // A sum of 0 means that no token is allowed.
      const bool blank = index_of(best) >= s.model.blank || sum == 0;
      tokens[i] = blank ? max_key_of_rank(best >> 32, max(index_of(best), s.model.blank)) : sum;
      if (s.model.durations > 0) durations[i] = __ldcg(key + s.key_rows);
    }
    SearchBarrier::sync();
#pragma unroll 1
    for (int i = threadIdx.x; i < here; i += kThreads)
      advance_row(s, rows, first + i, tokens + i * window, durations + i * window, writes);
    SearchBarrier::sync();
  }
  if (threadIdx.x == 0) {
    rows.counts[kJointRows] += candidates * rows.counts[kWindow];
    rows.counts[kSteps] += candidates > 0;
  }
  list_rows(s, rows, candidates);
}

/// Saves the states for the next piece. The last predictions of all blocks must be visible.
__device__ inline void save_states(const Search& s) {
  if (s.carried_state == nullptr) return;
  const int first = blockIdx.x * kThreads + threadIdx.x, step = gridDim.x * kThreads;
  const int vectors = s.batch * (s.state_bytes / static_cast<int>(sizeof(uint4)));
#pragma unroll 1
  for (int i = first; i < vectors; i += step)
    reinterpret_cast<uint4*>(s.carried_state)[i] =
        __ldcg(reinterpret_cast<const uint4*>(s.state) + i);
}

/// Writes the results of all rows. One block calls this.
__device__ inline void finish(const Search& s, const Rows& rows) {
#pragma unroll 1
  for (int b = threadIdx.x; b < s.batch; b += kThreads) {
    s.token_counts[b] = min(rows[b].count, s.capacity);
    s.scores[b] = rows[b].score;
    s.nan[b] = __ldcg(s.saw_nan + b) != 0 || !isfinite(rows[b].score);
    s.saw_nan[b] = 0;  // for the next search
    if (s.carried_rows == nullptr) continue;
    const int length = rows[b].length;
    s.carried_rows[b] = {
        rows[b].time - length, rows[b].label,        rows[b].before, rows[b].last_frame - length,
        rows[b].run,           rows[b].state_buffer, rows[b].score,  0};
  }
  if (threadIdx.x < kCounts) s.totals[threadIdx.x] = rows.counts[threadIdx.x];
}

}  // namespace rtfx::fused
