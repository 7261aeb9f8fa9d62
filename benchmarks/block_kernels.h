// Pairs of kernels for rtfx_bench_block. Both kernels of a pair repeat one operation of a block of
// threads, or of a grid, and give the same results. One uses rtfx's own code, the other CUB or
// cooperative groups.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rtfx::bench_block {

/// The arguments of a kernel. All pointers are device memory.
struct Work {
  int32_t blocks, rounds;  // each round depends on the one before
  uint64_t* results;       // [blocks * threads] out; at most kMostThreads threads a block
  // Barriers of a grid use these:
  unsigned* barrier;  // [1] 0 before the launch
  uint32_t* slots;    // [2 * blocks]
};
inline constexpr int32_t kMostThreads = 1024;

/// Enqueues one kernel and does not wait. Throws std::runtime_error if the launch fails.
using Launch = void (*)(const Work& work, cudaStream_t stream);

struct Pair {
  std::string name;  // operation/threads/library's algorithm
  bool grid;         // needs all multiprocessors; other operations work with any number of blocks
  int32_t threads;   // threads of a block
  Launch own, library;
};

/// Returns the operations, with the numbers of threads that rtfx's kernels use them with.
std::vector<Pair> pairs();

}  // namespace rtfx::bench_block
