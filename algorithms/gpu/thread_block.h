// Work of a block of threads, written once and run in three ways: by the threads of a GPU's block
// (cuda_block.cuh), by one thread of the CPU (SerialBlock), and in tests by several threads of the
// CPU. No LibTorch here: kernels include it.
//
// All threads of a block call its functions in the same order. A type Block has
//   thread(), threads()   this thread's number and how many there are
//   sync()                barrier: what all threads wrote before it is visible after it
//   all_reduce(value, op)   op over the values of all threads, returned to each of them; op is
//                         associative and commutative; a barrier
//   exclusive_sum(value, total)   sum of the values of the threads before this one, and of all
//                         threads in `total`; a barrier
#pragma once

#include <cstdint>

#include "base/gpu/host_device.h"

namespace rtfx {

// Operations for which a GPU's block has special instructions.
struct Maximum {
  template <class T>
  RTFX_DEVICE T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Either {
  RTFX_DEVICE bool operator()(bool a, bool b) const { return a || b; }
};

/// Loads *p, which no thread writes while the kernel runs: so a GPU may load it before earlier
/// stores are done.
template <class T>
RTFX_DEVICE T load_constant(const T* p) {
#ifdef __CUDA_ARCH__
  return __ldg(p);
#else
  return *p;
#endif
}

struct SerialBlock {
  int32_t thread() const { return 0; }
  int32_t threads() const { return 1; }
  void sync() const {}
  template <class T, class Op>
  T all_reduce(T value, const Op&) const {
    return value;
  }
  int32_t exclusive_sum(int32_t value, int32_t& total) const {
    total = value;
    return 0;
  }
};

}  // namespace rtfx
