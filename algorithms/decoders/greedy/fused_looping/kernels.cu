#include <cuda_runtime.h>

#include "algorithms/decoders/greedy/fused_looping/advance.cuh"
#include "algorithms/decoders/greedy/fused_looping/kernels.h"
#include "algorithms/decoders/greedy/fused_looping/look.cuh"
#include "algorithms/decoders/greedy/fused_looping/predict.cuh"
#include "algorithms/decoders/greedy/fused_looping/project_frames.cuh"
#include "algorithms/gpu/check.h"
#include "algorithms/gpu/dependent_launch.cuh"
#include "algorithms/gpu/shared_memory.h"

namespace rtfx::fused {
namespace {

// ---------------------------------------------------------------------------------------------------
// one persistent kernel

/// Every block arrives, none gets past wait() before the last has. What a block wrote before it
/// arrived is visible to all after wait(); between the two it may do what depends on no other
/// block.
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

/// The tiles that a block works on in every step, in its shared memory as far as there is room.
struct Resident {
  Tiles output, recurrent[kMaxLayers], input[kMaxLayers], projection;
};

/// Copies tiles first..first + count - 1 behind `free` if they fit.
__device__ Tiles keep(const Matrix& matrix, int first, int count, uint4*& free, const uint4* end) {
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

__device__ void keep_weights(const Model& model, Resident& resident, uint4* free,
                             const uint4* end) {
  const int group = LookShare(model.output).group();
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

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    search_kernel(const __grid_constant__ Search s, int shared_bytes) {
  extern __shared__ uint4 memory[];
  __shared__ Resident resident;
  GridBarrier barrier{s.barrier};
  start_states(s);
  project_frames<T>(s);
  barrier.arrive();
  char* bytes = reinterpret_cast<char*>(memory);
  Scratch& scratch = *reinterpret_cast<Scratch*>(bytes);
  const Rows rows = rows_at(reinterpret_cast<int*>(bytes + sizeof(Scratch)), s.batch);
  keep_weights(s.model, resident,
               reinterpret_cast<uint4*>(bytes + sizeof(Scratch) + row_ints(s.batch) * 4),
               reinterpret_cast<uint4*>(bytes + shared_bytes));
  start_rows(s, rows);
  barrier.wait();

  const auto predict = [&] {
    if (rows.counts[kFound] == 0) return;
    if (s.model.layers == 0) {
      look_up<T>(s, rows);
    } else {
      for (int layer = 0; layer < s.model.layers; ++layer) {
        // The recurrent part of a layer is done while the layer below is still under way elsewhere.
        Accumulator own[kPass] = {};
        recur<T>(s, rows, layer, resident.recurrent[layer], lstm_passes(s, rows, layer)[0], own);
        if (layer > 0) barrier.wait();
        lstm<T>(s, rows, layer, resident.recurrent[layer], resident.input[layer], own, scratch);
        barrier.arrive();
      }
      barrier.wait();
      project<T>(s, rows, resident.projection, scratch);
    }
    barrier.arrive();
    barrier.wait();
  };
  while (rows.counts[kActive] > 0) {
    look<T>(s, rows, resident.output, scratch);
    barrier.arrive();
    barrier.wait();
    advance(s, rows, blockIdx.x == 0, scratch);
    predict();
  }
  if (blockIdx.x != 0) return;
  finish(s, rows);
  if (threadIdx.x == 0) *s.next_barrier = 0;
}

// ---------------------------------------------------------------------------------------------------
// a kernel per phase

__global__ void __launch_bounds__(kThreads)
    set_kernel(Search* search, const __grid_constant__ Search value) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *search = value;
  start_states(value);
}

template <class T>
__global__ void __launch_bounds__(kThreads) start_kernel(const Search* search) {
  project_frames<T>(*search);
  if (blockIdx.x == 0) start_rows(*search, search->rows);
}

__global__ void set_condition_kernel(const Search* search, cudaGraphConditionalHandle any_active) {
  cudaGraphSetConditional(any_active, search->rows.counts[kActive] > 0);
}

template <class T>
__global__ void __launch_bounds__(kThreads) look_kernel(const Search* search) {
  await_previous();
  extern __shared__ uint4 memory[];
  look<T>(*search, search->rows, Tiles{}, *reinterpret_cast<Scratch*>(memory));
}

__global__ void __launch_bounds__(kThreads)
    advance_kernel(const Search* search, cudaGraphConditionalHandle any_active) {
  await_previous();
  extern __shared__ uint4 memory[];
  advance(*search, search->rows, true, *reinterpret_cast<Scratch*>(memory));
  if (threadIdx.x == 0 && any_active != 0)
    cudaGraphSetConditional(any_active, search->rows.counts[kActive] > 0);
}

template <class T>
__global__ void __launch_bounds__(kThreads) lstm_kernel(const Search* search, int layer) {
  await_previous();
  extern __shared__ uint4 memory[];
  const Search& s = *search;
  Accumulator own[kPass] = {};
  recur<T>(s, s.rows, layer, Tiles{}, lstm_passes(s, s.rows, layer)[0], own);
  lstm<T>(s, s.rows, layer, Tiles{}, Tiles{}, own, *reinterpret_cast<Scratch*>(memory));
}

template <class T>
__global__ void __launch_bounds__(kThreads) project_kernel(const Search* search) {
  await_previous();
  extern __shared__ uint4 memory[];
  project<T>(*search, search->rows, Tiles{}, *reinterpret_cast<Scratch*>(memory));
}

template <class T>
__global__ void __launch_bounds__(kThreads) look_up_kernel(const Search* search) {
  await_previous();
  look_up<T>(*search, search->rows);
}

__global__ void finish_kernel(const Search* search) { finish(*search, search->rows); }

// ---------------------------------------------------------------------------------------------------

int multiprocessors() {
  int device = 0, count = 0;
  RTFX_CUDA(cudaGetDevice(&device));
  RTFX_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

template <class... Arguments>
const void* pointer(void (*kernel)(Arguments...)) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace

PersistentKernel::PersistentKernel(Precision precision) : blocks_(multiprocessors()) {
  with_type(precision, [&](auto type) { kernel_ = pointer(&search_kernel<decltype(type)>); });
  shared_bytes_ = static_cast<int>(most_launch_bytes(kernel_));
  allow_launch_bytes(kernel_, shared_bytes_);
}

int64_t PersistentKernel::max_rows() const {
  return most_rows(shared_bytes_ - static_cast<int64_t>(sizeof(Scratch)));
}

void PersistentKernel::launch(const Search& search, cudaStream_t stream) const {
  // Cooperative: the barriers need all blocks at once.
  const void* arguments[] = {&search, &shared_bytes_};
  RTFX_CUDA(cudaLaunchCooperativeKernel(kernel_, blocks_, kThreads, const_cast<void**>(arguments),
                                        shared_bytes_, stream));
}

StepKernels::StepKernels(Precision precision, int layers)
    : precision(precision), layers(layers), blocks(multiprocessors()) {
  allow_launch_bytes(pointer(&advance_kernel), sizeof(Scratch));
  with_type(precision, [&](auto type) {
    using T = decltype(type);
    allow_launch_bytes(pointer(&look_kernel<T>), sizeof(Scratch));
    allow_launch_bytes(pointer(&lstm_kernel<T>), sizeof(Scratch));
    allow_launch_bytes(pointer(&project_kernel<T>), sizeof(Scratch));
  });
}

void StepKernels::set(Search* search, const Search& value, cudaStream_t stream) const {
  set_kernel<<<blocks, kThreads, 0, stream>>>(search, value);
  RTFX_CUDA(cudaGetLastError());
}

void StepKernels::start(const Search* search, cudaStream_t stream) const {
  with_type(precision, [&](auto type) {
    start_kernel<decltype(type)><<<blocks, kThreads, 0, stream>>>(search);
  });
  RTFX_CUDA(cudaGetLastError());
}

void StepKernels::set_condition(const Search* search, cudaGraphConditionalHandle any_active,
                                cudaStream_t stream) {
  set_condition_kernel<<<1, 1, 0, stream>>>(search, any_active);
  RTFX_CUDA(cudaGetLastError());
}

void StepKernels::look(const Search* search, cudaStream_t stream) const {
  with_type(precision, [&](auto type) {
    launch_dependent(look_kernel<decltype(type)>, blocks, kThreads, sizeof(Scratch), stream,
                     search);
  });
}

void StepKernels::advance(const Search* search, cudaGraphConditionalHandle any_active,
                          cudaStream_t stream) const {
  launch_dependent(advance_kernel, 1, kThreads, sizeof(Scratch), stream, search, any_active);
}

void StepKernels::predict(const Search* search, cudaStream_t stream) const {
  with_type(precision, [&](auto type) {
    using T = decltype(type);
    if (layers == 0) launch_dependent(look_up_kernel<T>, blocks, kThreads, 0, stream, search);
    for (int layer = 0; layer < layers; ++layer)
      launch_dependent(lstm_kernel<T>, blocks, kThreads, sizeof(Scratch), stream, search, layer);
    if (layers > 0)
      launch_dependent(project_kernel<T>, blocks, kThreads, sizeof(Scratch), stream, search);
  });
}

void StepKernels::finish(const Search* search, cudaStream_t stream) const {
  finish_kernel<<<1, kThreads, 0, stream>>>(search);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx::fused
