// Work of a block of threads, written once: a GPU's threads run it in a kernel, one thread of the
// CPU runs it where there is none, and tests run it by several threads of the CPU. No LibTorch
// here: kernels include it.
//
// All threads of a block call the same functions in the same order. Block:
//   thread(), threads()   this thread's number and how many there are
//   sync()                waits for all threads; what they wrote is seen after it
//   all(value, op)        op (associative and commutative) over the values of all threads, for each
//                         of them; waits like sync()
//   exclusive_sum(value, total)   sum over the threads before this one, and over all of them;
//   likewise
#pragma once

#include <cstdint>

#include "algorithms/gpu/host_device.h"

namespace rtfx {

// Operations for which a block may have something shorter.
struct Maximum {
  template <class T>
  RTFX_DEVICE T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Either {
  RTFX_DEVICE bool operator()(bool a, bool b) const { return a || b; }
};

/// *p, which no thread writes meanwhile: a GPU need not finish the stores before it first.
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
