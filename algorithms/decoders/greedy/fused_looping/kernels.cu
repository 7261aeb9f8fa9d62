#include <cuda_runtime.h>

#include <algorithm>

#include "algorithms/decoders/greedy/fused_looping/advance.cuh"
#include "algorithms/decoders/greedy/fused_looping/bonuses.cuh"
#include "algorithms/decoders/greedy/fused_looping/joint.cuh"
#include "algorithms/decoders/greedy/fused_looping/kernels.h"
#include "algorithms/decoders/greedy/fused_looping/predict.cuh"
#include "algorithms/gpu/grid_barrier.cuh"
#include "base/gpu/check.h"
#include "base/gpu/dependent_launch.cuh"
#include "base/gpu/shared_memory.h"

namespace rtfx::fused {

// -------------------------------------------------------------------------------------------------
// one persistent kernel

/// The weight tiles that a block uses in every step. They are copies in its shared memory, as far
/// as there is room.
struct Resident {
  Tiles output, recurrent[kMaxLayers], input[kMaxLayers], projection;
};

/// Copies tiles first..first + count - 1 to `free`, and moves `free` behind them. Copies nothing if
/// they do not fit.
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

/// Returns the number of threads of a block of the persistent kernel. `with_bonus` means with
/// Search::bonus.
constexpr int search_threads(bool with_bonus) {
  return kThreads + (with_bonus ? kBonusThreads : 0);
}

/// Runs the whole search. kWithBonus means with Search::bonus, which has a kernel of its own. So
/// searches without a bonus have all registers.
template <class T, bool kWithBonus>
__global__ void __launch_bounds__(search_threads(kWithBonus), 1)
    search_kernel(const __grid_constant__ Search s, int shared_bytes) {
  extern __shared__ uint4 memory[];
  __shared__ Resident resident;
  GridBarrier<kThreads> barrier{s.barrier};
  char* bytes = reinterpret_cast<char*>(memory);
  Scratch& scratch = *reinterpret_cast<Scratch*>(bytes);
  const Rows rows{reinterpret_cast<int*>(bytes + sizeof(Scratch))};
  if constexpr (kWithBonus) {
    if (threadIdx.x >= kThreads) {
      follow_bonuses(s, rows);
      return;
    }
  }
  // Arrives at a grid barrier, after which all blocks see what the bonus threads have written.
  const auto arrive_with_bonuses = [&] {
    if constexpr (kWithBonus) {
      BonusesWritten::sync();
      barrier.arrive_together();
    } else {
      barrier.arrive();
    }
  };
  start_states(s);
  project_frames<T>(s);
  // This must come before the barrier. If no row has a frame left, the first block overwrites
  // `carried_rows` right after the barrier.
  start_rows(s, rows);
  if constexpr (kWithBonus) hand_over_rows(rows);
  arrive_with_bonuses();
  keep_weights(s.model, resident,
               reinterpret_cast<uint4*>(bytes + sizeof(Scratch) + row_bytes(s.batch)),
               reinterpret_cast<uint4*>(bytes + shared_bytes));
  barrier.wait();

  const auto predict = [&] {
    if (rows.counts[kFound] == 0) return;
    if (s.model.layers == 0) {
      look_up<T>(s, rows);
    } else {
      for (int layer = 0; layer < s.model.layers; ++layer) {
        lstm<T>(s, rows, layer, resident.recurrent[layer], resident.input[layer], scratch, [&] {
          if (layer > 0) barrier.wait();
        });
        barrier.arrive();
      }
      barrier.wait();
      project<T>(s, rows, ProjectShare(s.model.projection), resident.projection, scratch);
    }
    arrive_with_bonuses();
    barrier.wait();
  };
  while (rows.counts[kActive] > 0) {
    evaluate_joint<T, kWithBonus>(s, rows, resident.output, scratch);
    barrier.arrive();
    barrier.wait();
    advance(s, rows, blockIdx.x == 0, scratch);
    if constexpr (kWithBonus) hand_over_rows(rows);
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
  if (search->bonus != nullptr) start_bonuses<CudaBlock<kThreads>>(*search);
  project_frames<T>(*search);
  if (blockIdx.x == 0) start_rows(*search, search->rows);
}

template <class T>
__global__ void __launch_bounds__(kThreads) joint_kernel(const Search* search) {
  await_previous();
  extern __shared__ uint4 memory[];
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory);
  if (search->bonus != nullptr) {
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
  // With bonuses, as few blocks as possible project, so that others are free to update the bonuses.
  const ProjectShare share(search->model.projection, search->bonus != nullptr ? kOwnColumns : 1);
  advance_bonuses<CudaBlock<kThreads>>(*search, rows,
                                       BonusShare::of_free(rows, share.busy(found_columns(rows))));
  project<T>(*search, rows, share, Tiles{}, *reinterpret_cast<Scratch*>(memory));
}

template <class T>
__global__ void __launch_bounds__(kThreads) look_up_kernel(const Search* search) {
  await_previous();
  const Rows& rows = search->rows;
  look_up<T>(*search, rows);
  advance_bonuses<CudaBlock<kThreads>>(*search, rows,
                                       BonusShare::of_free(rows, look_up_busy<T>(*search, rows)));
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

namespace {

__global__ void __launch_bounds__(kThreads)
    set_kernel(Search* search, const __grid_constant__ Search value) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *search = value;
  start_states(value);
}

/// Does what set_condition() of algorithms/gpu/condition.h does, with a count of the search in
/// place of a flag.
__global__ void set_any_active_kernel(const Search* search, cudaGraphConditionalHandle any_active) {
  cudaGraphSetConditional(any_active, search->rows.counts[kActive] > 0);
}

__global__ void __launch_bounds__(kThreads)
    advance_kernel(const Search* search, cudaGraphConditionalHandle any_active) {
  await_previous();
  extern __shared__ uint4 memory[];
  advance(*search, search->rows, true, *reinterpret_cast<Scratch*>(memory));
  if (threadIdx.x == 0 && any_active != 0)
    cudaGraphSetConditional(any_active, search->rows.counts[kActive] > 0);
}

__global__ void finish_kernel(const Search* search) {
  save_states(*search);
  finish(*search, search->rows);
}

// -------------------------------------------------------------------------------------------------

int multiprocessors() {
  int device = 0, count = 0;
  RTFX_CUDA(cudaGetDevice(&device));
  RTFX_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

ElementKernels kernels_of(Precision precision) {
  return with_type(precision, [](auto type) { return element_kernels<decltype(type)>(); });
}

template <class... Arguments>
const void* pointer(void (*kernel)(Arguments...)) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace

PersistentKernel::PersistentKernel(Precision precision) : blocks_(multiprocessors()) {
  const ElementKernels all = kernels_of(precision);
  kernels_[0] = pointer(all.search[0]);
  kernels_[1] = pointer(all.search[1]);
  shared_bytes_ =
      static_cast<int>(std::min(most_launch_bytes(kernels_[0]), most_launch_bytes(kernels_[1])));
  for (const void* kernel : kernels_) allow_launch_bytes(kernel, shared_bytes_);
}

int64_t PersistentKernel::max_rows() const {
  return most_rows(shared_bytes_ - static_cast<int64_t>(sizeof(Scratch)));
}

void PersistentKernel::launch(const Search& search, cudaStream_t stream) const {
  // The launch is cooperative, because the barriers need all blocks to run at once.
  const void* arguments[] = {&search, &shared_bytes_};
  const bool with_bonus = search.bonus != nullptr;
  RTFX_CUDA(cudaLaunchCooperativeKernel(kernels_[with_bonus ? 1 : 0], blocks_,
                                        search_threads(with_bonus), const_cast<void**>(arguments),
                                        shared_bytes_, stream));
}

StepKernels::StepKernels(Precision precision, int layers)
    : layers_(layers), blocks_(multiprocessors()), kernels_(kernels_of(precision)) {
  for (const void* kernel : {pointer(&advance_kernel), pointer(kernels_.joint),
                             pointer(kernels_.lstm), pointer(kernels_.project)})
    allow_launch_bytes(kernel, sizeof(Scratch));
}

void StepKernels::set(Search* search, const Search& value, cudaStream_t stream) const {
  set_kernel<<<blocks_, kThreads, 0, stream>>>(search, value);
  RTFX_CUDA(cudaGetLastError());
}

void StepKernels::start(const Search* search, cudaStream_t stream) const {
  kernels_.start<<<blocks_, kThreads, 0, stream>>>(search);
  RTFX_CUDA(cudaGetLastError());
}

void StepKernels::set_condition(const Search* search, cudaGraphConditionalHandle any_active,
                                cudaStream_t stream) {
  set_any_active_kernel<<<1, 1, 0, stream>>>(search, any_active);
  RTFX_CUDA(cudaGetLastError());
}

void StepKernels::evaluate_joint(const Search* search, cudaStream_t stream) const {
  launch_dependent(kernels_.joint, blocks_, kThreads, sizeof(Scratch), stream, search);
}

void StepKernels::advance(const Search* search, cudaGraphConditionalHandle any_active,
                          cudaStream_t stream) const {
  launch_dependent(advance_kernel, 1, kThreads, sizeof(Scratch), stream, search, any_active);
}

void StepKernels::predict(const Search* search, cudaStream_t stream) const {
  if (layers_ == 0) {
    launch_dependent(kernels_.look_up, blocks_, kThreads, 0, stream, search);
    return;
  }
  for (int layer = 0; layer < layers_; ++layer)
    launch_dependent(kernels_.lstm, blocks_, kThreads, sizeof(Scratch), stream, search, layer);
  launch_dependent(kernels_.project, blocks_, kThreads, sizeof(Scratch), stream, search);
}

void StepKernels::finish(const Search* search, cudaStream_t stream) const {
  finish_kernel<<<1, kThreads, 0, stream>>>(search);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx::fused
