// The kernels of fused_looping for one element type of weights and states.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/search.h"

namespace rtfx::fused {

struct ElementKernels {
  /// The whole search; bytes of a block's shared memory. [1]: with what Search::bias adds.
  void (*search[2])(Search, int);
  // The phases of a step, and what comes before the first.
  void (*start)(const Search*);
  void (*joint)(const Search*);
  void (*lstm)(const Search*, int);  // of a layer
  void (*project)(const Search*);
  void (*look_up)(const Search*);
};

/// T: float, __nv_bfloat16 or __half (element_*.cu).
template <class T>
ElementKernels element_kernels();

}  // namespace rtfx::fused
