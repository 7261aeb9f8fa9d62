#include <cooperative_groups.h>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "algorithms/gpu/cuda_block.cuh"
#include "algorithms/gpu/grid_barrier.cuh"
#include "algorithms/gpu/ordered_key.h"
#include "base/gpu/check.h"
#include "benchmarks/block_kernels.h"

namespace rtfx::bench_block {
namespace {

/// A block with the members of CudaBlock, made with CUB. CUB gives the result of a reduction to the
/// first thread alone, so a second barrier passes it on. Two buffers make barriers between
/// operations unnecessary, as they do in CudaBlock.
template <int32_t kThreads, cub::BlockReduceAlgorithm kReduce, cub::BlockScanAlgorithm kScan>
class CubBlock {
 public:
  __device__ int32_t thread() const { return static_cast<int32_t>(threadIdx.x); }
  __device__ int32_t threads() const { return kThreads; }
  __device__ void sync() const { __syncthreads(); }

  template <class T, class Op>
  __device__ T all_reduce(T value, const Op& op) {
    using Reduce = cub::BlockReduce<T, kThreads, kReduce>;
    __shared__ typename Reduce::TempStorage storage[2];
    __shared__ T totals[2];
    const T reduced = Reduce(storage[buffer_]).Reduce(value, op);
    if (threadIdx.x == 0) totals[buffer_] = reduced;
    __syncthreads();
    const T total = totals[buffer_];
    buffer_ ^= 1;
    return total;
  }

  __device__ int32_t exclusive_sum(int32_t value, int32_t& total) {
    using Scan = cub::BlockScan<int32_t, kThreads, kScan>;
    __shared__ typename Scan::TempStorage storage[2];
    int32_t before = 0;
    Scan(storage[buffer_]).ExclusiveSum(value, before, total);
    buffer_ ^= 1;
    return before;
  }

 private:
  int32_t buffer_ = 0;
};

template <int32_t kThreads>
using WarpsBlock =
    CubBlock<kThreads, cub::BLOCK_REDUCE_WARP_REDUCTIONS, cub::BLOCK_SCAN_WARP_SCANS>;
template <int32_t kThreads>
using RakingBlock =
    CubBlock<kThreads, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, cub::BLOCK_SCAN_RAKING>;
static_assert(ReducingBlock<WarpsBlock<256>> && ReducingBlock<RakingBlock<256>>);

/// Returns a number that looks random for each thread of the grid.
__device__ uint32_t seed() {
  uint32_t x = blockIdx.x * kMostThreads + threadIdx.x + 1;
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

// The operations. next(block, value, round) is one round of a thread. Its result depends on
// `value`, the result of the round before.

/// Finds the greatest of 64-bit keys, as beam searches choose the best hypotheses.
struct GreatestKey {
  static constexpr const char* kName = "greatest_key";
  uint64_t own = uint64_t{seed()} << 32 | threadIdx.x;

  template <ReducingBlock Block>
  __device__ uint64_t next(Block& block, uint64_t value, int32_t) const {
    return block.all_reduce(MaxKey{own + value}, Maximum{});
  }
};

/// Finds the least of float32 values, as ctc_wfst finds the cost of the best path.
struct LeastFloat {
  static constexpr const char* kName = "least_float";
  float own = static_cast<float>(seed() % 1000);

  template <ReducingBlock Block>
  __device__ uint64_t next(Block& block, uint64_t value, int32_t) const {
    const float last = __uint_as_float(static_cast<uint32_t>(value));
    return __float_as_uint(
        block.all_reduce(own - last, [](float a, float b) { return a < b ? a : b; }));
  }
};

/// Computes the sum of float32 values, as a softmax does. The values are whole numbers, so that the
/// sum is exact in any order.
struct SumOfFloats {
  static constexpr const char* kName = "sum_of_floats";
  float own = static_cast<float>(seed() % 1000);

  template <ReducingBlock Block>
  __device__ uint64_t next(Block& block, uint64_t value, int32_t) const {
    const float last = __uint_as_float(static_cast<uint32_t>(value));
    return __float_as_uint(
        block.all_reduce(last > 0 ? -own : own, [](float a, float b) { return a + b; }));
  }
};

/// Finds whether any thread has something left to do.
struct AnyThread {
  static constexpr const char* kName = "any_thread";

  template <ReducingBlock Block>
  __device__ uint64_t next(Block& block, uint64_t value, int32_t round) const {
    const bool own = value % 2 == 0 && block.thread() == round % block.threads();
    return value / 2 * 2 + 2 + (block.all_reduce(own, Either{}) ? 1 : 0);
  }
};

/// Sums small numbers over the threads before, as ctc_wfst numbers the arcs of its tokens.
struct ExclusiveSum {
  static constexpr const char* kName = "exclusive_sum";
  int32_t own = static_cast<int32_t>(seed() % 8);

  template <ReducingBlock Block>
  __device__ uint64_t next(Block& block, uint64_t value, int32_t) const {
    int32_t total = 0;
    const int32_t before =
        block.exclusive_sum(own + static_cast<int32_t>(static_cast<uint32_t>(value) % 2), total);
    return uint64_t{static_cast<uint32_t>(total)} << 32 | static_cast<uint32_t>(before);
  }
};

template <class Operation, class Block, int32_t kThreads>
__global__ void __launch_bounds__(kThreads) operation_kernel(const Work work) {
  Block block;
  const Operation operation;
  uint64_t value = 0;
  for (int32_t round = 0; round < work.rounds; ++round) value = operation.next(block, value, round);
  work.results[static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x] = value;
}

template <class Operation, class Block, int32_t kThreads>
void launch_operation(const Work& work, cudaStream_t stream) {
  operation_kernel<Operation, Block, kThreads>
      <<<static_cast<unsigned>(work.blocks), kThreads, 0, stream>>>(work);
  RTFX_CUDA(cudaGetLastError());
}

template <class Operation, int32_t kThreads>
void add_operation(std::vector<Pair>& pairs) {
  const std::string name = std::string(Operation::kName) + "/" + std::to_string(kThreads);
  const Launch own = launch_operation<Operation, CudaBlock<kThreads>, kThreads>;
  pairs.push_back({name + "/cub_warps", false, kThreads, own,
                   launch_operation<Operation, WarpsBlock<kThreads>, kThreads>});
  pairs.push_back({name + "/cub_raking", false, kThreads, own,
                   launch_operation<Operation, RakingBlock<kThreads>, kThreads>});
}

// Barriers of a grid. arrive() and wait() are called in turn.

constexpr int32_t kSearchThreads = 320;  // threads of a block in fused_looping's persistent kernel

struct OwnBarrier : GridBarrier<kSearchThreads> {
  __device__ explicit OwnBarrier(const Work& work) : GridBarrier{work.barrier} {}
};

struct GroupSync {
  cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  __device__ explicit GroupSync(const Work&) {}
  __device__ void arrive() const {}
  __device__ void wait() const { grid.sync(); }
};

struct GroupBarrier {
  cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  cooperative_groups::grid_group::arrival_token token{};
  __device__ explicit GroupBarrier(const Work&) {}
  __device__ void arrive() { token = grid.barrier_arrive(); }
  __device__ void wait() {
    // The token is an integer, which a move copies.
    grid.barrier_wait(static_cast<cooperative_groups::grid_group::arrival_token&&>(token));
  }
};

/// After a barrier, each block reads what another block wrote before it. kBetween is the number of
/// additions that a thread does between arrive() and wait(). Each addition depends on the one
/// before.
template <class Barrier, int32_t kBetween>
__global__ void __launch_bounds__(kSearchThreads, 1) barrier_kernel(const Work work) {
  Barrier barrier(work);
  const uint32_t other = (blockIdx.x + 1) % gridDim.x;
  uint32_t value = blockIdx.x;
  float sum = static_cast<float>(threadIdx.x);
  for (int32_t round = 0; round < work.rounds; ++round) {
    uint32_t* const slots = work.slots + round % 2 * gridDim.x;
    if (threadIdx.x == 0) __stcg(slots + blockIdx.x, value);
    barrier.arrive();
#pragma unroll 16
    for (int32_t i = 0; i < kBetween; ++i) sum = __fadd_rn(sum, 0.5f);
    barrier.wait();
    value = __ldcg(slots + other) * 5 + 1;
  }
  work.results[static_cast<size_t>(blockIdx.x) * kSearchThreads + threadIdx.x] =
      uint64_t{value} << 32 | __float_as_uint(sum);
}

template <class Barrier, int32_t kBetween>
void launch_barrier(const Work& work, cudaStream_t stream) {
  const void* arguments[] = {&work};
  RTFX_CUDA(
      cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&barrier_kernel<Barrier, kBetween>),
                                  static_cast<unsigned>(work.blocks), kSearchThreads,
                                  const_cast<void**>(arguments), 0, stream));
}

template <int32_t kBetween>
void add_barrier(std::vector<Pair>& pairs) {
  const std::string name =
      "grid_barrier/" + std::to_string(kSearchThreads) + "/between" + std::to_string(kBetween);
  const Launch own = launch_barrier<OwnBarrier, kBetween>;
  pairs.push_back(
      {name + "/group_sync", true, kSearchThreads, own, launch_barrier<GroupSync, kBetween>});
  pairs.push_back({name + "/group_arrive_wait", true, kSearchThreads, own,
                   launch_barrier<GroupBarrier, kBetween>});
}

}  // namespace

std::vector<Pair> pairs() {
  std::vector<Pair> all;
  add_operation<GreatestKey, 256>(all);
  add_operation<GreatestKey, 512>(all);
  add_operation<LeastFloat, 512>(all);
  add_operation<LeastFloat, 1024>(all);
  add_operation<SumOfFloats, 128>(all);
  add_operation<SumOfFloats, 256>(all);
  add_operation<AnyThread, 128>(all);
  add_operation<AnyThread, 256>(all);
  add_operation<ExclusiveSum, 512>(all);
  add_operation<ExclusiveSum, 1024>(all);
  add_barrier<0>(all);
  add_barrier<256>(all);
  return all;
}

}  // namespace rtfx::bench_block
