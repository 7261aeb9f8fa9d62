// The kernels of fused_looping, in their two forms. Nothing here waits for the device; errors of
// the CUDA runtime are thrown as std::runtime_error.
#pragma once

#include <cuda_runtime_api.h>

#include "algorithms/decoders/greedy/fused_looping/search.h"

namespace rtfx::fused {

/// The kernels for one element type of weights and states.
struct ElementKernels {
  /// Runs the whole search. The int is the number of bytes of dynamic shared memory of a block. [1]
  /// is the kernel for searches with Search::bonus.
  void (*search[2])(Search, int);
  // The start of a search, and the phases of a step.
  void (*start)(const Search*);
  void (*joint)(const Search*);
  void (*lstm)(const Search*, int);  // the number of the layer
  void (*project)(const Search*);
  void (*look_up)(const Search*);
};

/// The whole search as one kernel, with a thread block per multiprocessor. Weights are in shared
/// memory as far as they fit, and grid barriers lie between the phases.
class PersistentKernel {
 public:
  /// Raises the kernels' limit of shared memory to the GPU's, for the whole process.
  explicit PersistentKernel(Precision precision);
  /// Returns the largest number of rows for which the shared memory of a block has room.
  int64_t max_rows() const;
  /// Enqueues the kernel as a cooperative launch, since its barriers need all blocks to run at
  /// once.
  void launch(const Search& search, cudaStream_t stream) const;

 private:
  const void* kernels_[2];  // [1]: for searches with Search::bonus
  int blocks_;
  int shared_bytes_;  // of a block, the most that the GPU allows
};

/// Each phase is a kernel of its own. `search` is in device memory, so that a captured graph serves
/// batches of every shape.
class StepKernels {
 public:
  /// `layers` is the number of LSTM layers, 0 for a stateless prediction network.
  StepKernels(Precision precision, int layers);
  /// Copies `value` to `search` and initialises its working memory.
  void set(Search* search, const Search& value, cudaStream_t stream) const;
  /// Projects the encoder's frames and sets every row to its start.
  void start(const Search* search, cudaStream_t stream) const;
  /// Sets the graph's condition to whether any row has frames left.
  static void set_condition(const Search* search, cudaGraphConditionalHandle any_active,
                            cudaStream_t stream);
  void evaluate_joint(const Search* search, cudaStream_t stream) const;
  /// Sets the graph's condition to whether a row is still active. With `any_active` 0 it sets none.
  void advance(const Search* search, cudaGraphConditionalHandle any_active,
               cudaStream_t stream) const;
  void predict(const Search* search, cudaStream_t stream) const;
  void finish(const Search* search, cudaStream_t stream) const;

 private:
  int layers_, blocks_;  // blocks_: one on each multiprocessor
  ElementKernels kernels_;
};

}  // namespace rtfx::fused
