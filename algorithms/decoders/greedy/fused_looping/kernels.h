// The kernels of fused_looping, in their two forms. Nothing here waits for the device; errors of
// the CUDA runtime are thrown as std::runtime_error.
#pragma once

#include <cuda_runtime_api.h>

#include "algorithms/decoders/greedy/fused_looping/search.h"

namespace rtfx::fused {

/// The kernels for one element type of weights and states.
struct ElementKernels {
  /// The whole search; bytes of a block's shared memory. [1]: with Search::bonus.
  void (*search[2])(Search, int);
  // The phases of a step, and what comes before the first.
  void (*start)(const Search*);
  void (*joint)(const Search*);
  void (*lstm)(const Search*, int);  // of a layer
  void (*project)(const Search*);
  void (*look_up)(const Search*);
};

/// The whole search as one kernel: a thread block per multiprocessor, weights in shared memory as
/// far as they fit, grid barriers between the phases.
class PersistentKernel {
 public:
  explicit PersistentKernel(Precision precision);
  /// Rows of a batch that the shared memory of a block has room for.
  int64_t max_rows() const;
  void launch(const Search& search, cudaStream_t stream) const;

 private:
  const void* kernels_[2];  // [1]: with Search::bonus
  int blocks_;
  int shared_bytes_;  // of a block, all that the GPU gives
};

/// Each phase is a kernel of its own. `search` is in device memory, so that a captured graph serves
/// batches of every shape.
class StepKernels {
 public:
  /// layers: of the LSTM, 0 for a stateless prediction network.
  StepKernels(Precision precision, int layers);
  /// Copies `value` to `search` and starts its working memory.
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
