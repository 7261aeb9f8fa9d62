// The kernels that depend on the element type: made once for each, by the sources element_*.cu, so
// that the three compile side by side.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/advance.cuh"
#include "algorithms/decoders/greedy/fused_looping/element_kernels.h"
#include "algorithms/decoders/greedy/fused_looping/joint.cuh"
#include "algorithms/decoders/greedy/fused_looping/predict.cuh"
#include "algorithms/decoders/greedy/fused_looping/project_frames.cuh"
#include "algorithms/decoders/greedy/fused_looping/token_bias.cuh"
#include "base/gpu/dependent_launch.cuh"

namespace rtfx::fused {

// -------------------------------------------------------------------------------------------------
// one persistent kernel

/// A barrier of all blocks. What a block wrote before its arrive() is visible to all blocks after
/// their wait(); between its two calls a block may do work that depends on no other block.
struct GridBarrier {
  unsigned* arrived;
  unsigned expected = 0;

  __device__ void arrive() {
    __syncthreads();
    expected += gridDim.x;
    if (threadIdx.x == 0)
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
  }
  __device__ void wait() {
    if (threadIdx.x == 0) {
      unsigned now;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
      } while (now < expected);
    }
    __syncthreads();
  }
};

/// The weight tiles that a block uses in every step: copies in its shared memory, as far as there
/// is room.
struct Resident {
  Tiles output, recurrent[kMaxLayers], input[kMaxLayers], projection;
};

/// Copies tiles first..first + count - 1 to `free`, which moves behind them; nothing if they do not
/// fit.
__device__ inline Tiles keep(const Matrix& matrix, int first, int count, uint4*& free,
                             const uint4* end) {
  count = min(count, matrix.tiles - first);
  const int vectors = count * matrix.chunks * kChunkVectors;
  if (count <= 0 || free + vectors > end) return {};
  const uint4* from = static_cast<const uint4*>(matrix.weights) +
                      static_cast<size_t>(first) * matrix.chunks * kChunkVectors;
  for (int i = threadIdx.x; i < vectors; i += kThreads) free[i] = __ldg(from + i);
  const Tiles tiles{free, first, count};
  free += vectors;
  return tiles;
}

__device__ inline void keep_weights(const Model& model, Resident& resident, uint4* free,
                                    const uint4* end) {
  const int group = JointShare(model.output).group();
  const Tiles output = keep(model.output, group * kGroup, kGroup, free, end);
  if (threadIdx.x == 0) resident.output = output;
  for (int layer = 0; layer < model.layers; ++layer) {
    const Tiles recurrent = keep(model.recurrent[layer], blockIdx.x, 1, free, end);
    const Tiles input = layer > 0 ? keep(model.input[layer], blockIdx.x, 1, free, end) : Tiles{};
    if (threadIdx.x == 0) {
      resident.recurrent[layer] = recurrent;
      resident.input[layer] = input;
    }
  }
  if (model.layers == 0) return;
  const Tiles projection =
      keep(model.projection, ProjectShare(model.projection).tile(), 1, free, end);
  if (threadIdx.x == 0) resident.projection = projection;
}

/// kBiased: with what Search::bias adds. A kernel of its own, so that searches without have all
/// registers.
template <class T, bool kBiased>
__global__ void __launch_bounds__(kThreads, 1)
    search_kernel(const __grid_constant__ Search s, int shared_bytes) {
  extern __shared__ uint4 memory[];
  __shared__ Resident resident;
  GridBarrier barrier{s.barrier};
  start_states(s);
  if constexpr (kBiased) start_bias(s);
  project_frames<T>(s);
  barrier.arrive();
  char* bytes = reinterpret_cast<char*>(memory);
  Scratch& scratch = *reinterpret_cast<Scratch*>(bytes);
  const Rows rows{reinterpret_cast<int*>(bytes + sizeof(Scratch))};
  keep_weights(s.model, resident,
               reinterpret_cast<uint4*>(bytes + sizeof(Scratch) + row_bytes(s.batch)),
               reinterpret_cast<uint4*>(bytes + shared_bytes));
  start_rows(s, rows);
  barrier.wait();

  const auto predict = [&] {
    if (rows.counts[kFound] == 0) return;
    if (s.model.layers == 0) {
      look_up<T>(s, rows);
      if constexpr (kBiased) advance_bias(s, rows, look_up_busy<T>(s, rows));
    } else {
      for (int layer = 0; layer < s.model.layers; ++layer) {
        lstm<T>(s, rows, layer, resident.recurrent[layer], resident.input[layer], scratch, [&] {
          if (layer > 0) barrier.wait();
        });
        barrier.arrive();
      }
      // Blocks that have nothing to project do this, since they need not wait.
      if constexpr (kBiased)
        advance_bias(s, rows, ProjectShare(s.model.projection).busy(found_columns(rows)));
      barrier.wait();
      project<T>(s, rows, resident.projection, scratch);
    }
    barrier.arrive();
    barrier.wait();
  };
  while (rows.counts[kActive] > 0) {
    evaluate_joint<T, kBiased>(s, rows, resident.output, scratch);
    barrier.arrive();
    barrier.wait();
    advance(s, rows, blockIdx.x == 0, scratch);
    predict();
  }
  save_states(s);
  if (blockIdx.x != 0) return;
  finish(s, rows);
  if (threadIdx.x == 0) *s.next_barrier = 0;
}

// -------------------------------------------------------------------------------------------------
// a kernel per phase

template <class T>
__global__ void __launch_bounds__(kThreads) start_kernel(const Search* search) {
  if (search->bias.any()) start_bias(*search);
  project_frames<T>(*search);
  if (blockIdx.x == 0) start_rows(*search, search->rows);
}

template <class T>
__global__ void __launch_bounds__(kThreads) joint_kernel(const Search* search) {
  await_previous();
  extern __shared__ uint4 memory[];
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory);
  if (search->bias.any()) {
    evaluate_joint<T, true>(*search, search->rows, Tiles{}, scratch);
  } else {
    evaluate_joint<T, false>(*search, search->rows, Tiles{}, scratch);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) lstm_kernel(const Search* search, int layer) {
  await_previous();
  extern __shared__ uint4 memory[];
  const Search& s = *search;
  lstm<T>(s, s.rows, layer, Tiles{}, Tiles{}, *reinterpret_cast<Scratch*>(memory), [] {});
}

template <class T>
__global__ void __launch_bounds__(kThreads) project_kernel(const Search* search) {
  await_previous();
  extern __shared__ uint4 memory[];
  const Rows& rows = search->rows;
  advance_bias(*search, rows, ProjectShare(search->model.projection).busy(found_columns(rows)));
  project<T>(*search, rows, Tiles{}, *reinterpret_cast<Scratch*>(memory));
}

template <class T>
__global__ void __launch_bounds__(kThreads) look_up_kernel(const Search* search) {
  await_previous();
  look_up<T>(*search, search->rows);
  advance_bias(*search, search->rows, look_up_busy<T>(*search, search->rows));
}

// -------------------------------------------------------------------------------------------------

template <class T>
ElementKernels element_kernels() {
  return {{&search_kernel<T, false>, &search_kernel<T, true>},
          &start_kernel<T>,
          &joint_kernel<T>,
          &lstm_kernel<T>,
          &project_kernel<T>,
          &look_up_kernel<T>};
}

}  // namespace rtfx::fused
