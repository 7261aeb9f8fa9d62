#include <cmath>

#include "algorithms/decoders/greedy/ctc_greedy/collapse_kernel.h"
#include "algorithms/gpu/cuda_block.cuh"
#include "algorithms/gpu/ordered_key.h"
#include "base/gpu/dependent_launch.cuh"
#include "base/gpu/rounding.h"
#include "base/gpu/warp.cuh"

namespace rtfx {
namespace {

constexpr int32_t kThreads = 256;
constexpr int32_t kFramesOfBlock = kThreads / kWarpSize;  // a warp has one
constexpr int32_t kAtOnce = 16;                           // labels that a lane loads together
constexpr int32_t kStride = kAtOnce * kWarpSize;          // labels that a warp loads together
constexpr int32_t kFramesOfThread = 4;  // that a thread collapses between two barriers

/// The best of the labels that a lane has read: lane, lane + kWarpSize, and so on.
struct LaneBest {
  float value;    // the greatest; the first NaN if there is one
  int32_t label;  // the first with that value
  float sum;      // of exp(z - value), or 0 while the value is -inf
};

/// Adds this lane's labels among begin .. begin + kStride - 1 to `best`. With kWhole, the frame has
/// all of these labels.
template <bool kWhole, class T>
__device__ void add_labels(const T* logits, const bool* forbidden, int32_t labels, int32_t begin,
                           int32_t lane, LaneBest& best) {
  const int32_t first = begin + lane;
  const auto is_beyond = [&](int32_t i) { return !kWhole && begin + i * kWarpSize >= labels; };
  const T* const from = logits + first;
  float z[kAtOnce];
#pragma unroll
  for (int32_t i = 0; i < kAtOnce; ++i)
    z[i] = kWhole || first + i * kWarpSize < labels ? to_float(from[i * kWarpSize]) : -INFINITY;
  if (forbidden != nullptr) {
    const bool* const masks = forbidden + first;
#pragma unroll
    for (int32_t i = 0; i < kAtOnce; ++i)
      if (first + i * kWarpSize < labels - 1 && masks[i * kWarpSize]) z[i] = -INFINITY;
  }
  const float before = best.value;
#pragma unroll
  for (int32_t i = 0; i < kAtOnce; ++i) {
    if (is_beyond(i)) break;
    if (!(z[i] <= best.value) && best.value == best.value) {  // greater, or the first NaN
      best.value = z[i];
      best.label = first + i * kWarpSize;
    }
  }
  const float base = best.value == -INFINITY ? 0 : best.value;  // -inf - -inf would be NaN
  if (best.value > before) best.sum *= __expf(before - base);
#pragma unroll
  for (int32_t i = 0; i < kAtOnce; ++i) {
    if (is_beyond(i)) break;
    best.sum += __expf(z[i] - base);
  }
}

/// Returns the best label of a frame to all lanes of a warp.
template <class T>
__device__ BestLabel best_label(const T* logits, const bool* forbidden, int32_t labels,
                                int32_t lane) {
  LaneBest best{-INFINITY, lane, 0};
  int32_t begin = 0;
  for (; begin + kStride <= labels; begin += kStride)
    add_labels<true>(logits, forbidden, labels, begin, lane, best);
  if (begin < labels) add_labels<false>(logits, forbidden, labels, begin, lane, best);
  const MaxKey key = warp_max(lane < labels ? max_key(best.value, best.label) : MaxKey{0});
  const float greatest = value_of(key);
  const float sum = warp_sum(best.sum * __expf(best.value - greatest));
  // The first difference is 0, or NaN where there is no log-probability.
  const float logprob = (greatest - greatest) - logf(sum);
  return {greatest == greatest ? index_of(key) : ~index_of(key), logprob};
}

/// Returns whether this block is the last of `blocks` blocks that call it with the same counter.
/// The counter is 0 again after the last call. The last block may read what the others wrote
/// before, with __ldcg().
__device__ bool is_last_block(unsigned int* counter, unsigned int blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(counter, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

__device__ BestLabel load_best(const BestLabel* best) {
  const int2 bits = __ldcg(reinterpret_cast<const int2*>(best));
  return {bits.x, __int_as_float(bits.y)};
}

/// Writes the result of a row of `length` frames, whose best labels are known. All threads of a
/// block call it.
__device__ void collapse_row(const CtcCollapse& c, int64_t row, int32_t length) {
  CudaBlock<kThreads> block;
  const BestLabel* const best = c.best + row * c.frames;
  int32_t* const tokens = c.tokens + row * c.frames;
  int32_t* const times = c.times + row * c.frames;
  const auto blank = static_cast<int32_t>(c.labels - 1);
  const auto label_of = [](const BestLabel& b) {
    return b.marked_label < 0 ? ~b.marked_label : b.marked_label;
  };
  const auto label_before = [&](int32_t frame) {
    if (frame > 0) return label_of(load_best(best + frame - 1));
    return c.last_label != nullptr ? static_cast<int32_t>(c.last_label[row]) : blank;
  };

  int64_t sum = 0;             // log-probability of this thread's frames
  bool has_nan = false;        // one of these frames has a NaN
  bool lacks_logprob = false;  // one of these frames has no log-probability
  int32_t found = 0;           // tokens before these frames
  for (int32_t begin = 0; begin < length; begin += kThreads * kFramesOfThread) {
    const int32_t first = begin + block.thread() * kFramesOfThread;
    int32_t labels[kFramesOfThread];
    bool is_token[kFramesOfThread];
    int32_t previous = first < length ? label_before(first) : blank, count = 0;
#pragma unroll
    for (int32_t i = 0; i < kFramesOfThread; ++i) {
      is_token[i] = false;
      if (first + i >= length) continue;
      const BestLabel b = load_best(best + first + i);
      has_nan = has_nan || b.marked_label < 0;
      lacks_logprob = lacks_logprob || b.logprob != b.logprob;
      if (b.logprob == b.logprob)
        sum += __double2ll_rn(static_cast<double>(b.logprob) * kLogprobUnits);
      labels[i] = label_of(b);
      is_token[i] = labels[i] != blank && labels[i] != previous;
      count += is_token[i] ? 1 : 0;
      previous = labels[i];
    }
    int32_t total;
    int32_t slot = found + block.exclusive_sum(count, total);
#pragma unroll
    for (int32_t i = 0; i < kFramesOfThread; ++i) {
      if (!is_token[i]) continue;
      tokens[slot] = labels[i];
      times[slot] = first + i;
      ++slot;
    }
    found += total;
  }
  sum = block.all_reduce(sum, [](int64_t a, int64_t b) { return a + b; });
  has_nan = block.all_reduce(has_nan, Either{});
  lacks_logprob = block.all_reduce(lacks_logprob, Either{});
  if (block.thread() != 0) return;
  if (c.logprobs != nullptr) {
    sum += c.logprobs[row];
    c.logprobs[row] = sum;
  }
  if (c.last_label != nullptr) c.last_label[row] = label_before(length);
  c.lengths_found[row] = found;
  const bool has_score = !lacks_logprob || c.logprobs != nullptr;
  c.nan[row] = has_nan || !has_score;
  c.scores[row] = has_score ? static_cast<float>(static_cast<double>(sum) / kLogprobUnits) : NAN;
}

/// Each row has `parts` blocks, one for every kFramesOfBlock frames. Blocks behind the row's end do
/// nothing. In a row without frames, the first block still writes the result.
template <class T>
__global__ void __launch_bounds__(kThreads) collapse_kernel(CtcCollapse c, int32_t parts) {
  await_previous();
  const int64_t row = blockIdx.x / parts;
  const auto part = static_cast<int32_t>(blockIdx.x % parts);
  const int64_t stated = c.lengths[row];
  const auto length =
      static_cast<int32_t>(stated < 0 ? 0 : (stated > c.frames ? c.frames : stated));
  const int32_t used = length == 0 ? 1 : ceil_div(length, kFramesOfBlock);
  if (part >= used) return;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarpSize;
  const int32_t frame = part * kFramesOfBlock + static_cast<int32_t>(threadIdx.x) / kWarpSize;
  if (frame < length) {
    const BestLabel best =
        best_label(static_cast<const T*>(c.logits) + row * c.row_stride + frame * c.frame_stride,
                   c.forbidden != nullptr ? c.forbidden + row * (c.labels - 1) : nullptr,
                   static_cast<int32_t>(c.labels), lane);
    if (lane == 0) c.best[row * c.frames + frame] = best;
  }
  if (is_last_block(c.finished + row, static_cast<unsigned int>(used)))
    collapse_row(c, row, length);
}

}  // namespace

void launch_ctc_collapse(const CtcCollapse& collapse, cudaStream_t stream) {
  if (collapse.batch == 0) return;
  const int64_t parts =
      collapse.frames == 0 ? 1 : ceil_div(collapse.frames, int64_t{kFramesOfBlock});
  with_type(collapse.precision, [&](auto type) {
    launch_dependent(collapse_kernel<decltype(type)>, static_cast<unsigned>(collapse.batch * parts),
                     kThreads, 0, stream, collapse, static_cast<int32_t>(parts));
  });
}

}  // namespace rtfx
