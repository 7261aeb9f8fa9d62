// Work of a block of threads is written once and run in three ways. The threads of a GPU's block
// run it (cuda_block.cuh), or one thread of the CPU (SerialBlock), or in tests several threads of
// the CPU. Kernels include this file, so it includes no LibTorch header.
#pragma once

#include <concepts>
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

/// Threads that share work. All of them call the members in the same order:
///   thread()    this thread's number, from 0 to threads() - 1
///   threads()   how many there are
///   sync()      a barrier: what all threads wrote before it is visible to all after it
template <class B>
concept ThreadBlock = requires(const B& block) {
  { block.thread() } -> std::same_as<int32_t>;
  { block.threads() } -> std::same_as<int32_t>;
  block.sync();
};

/// A block whose threads combine their values, too. Both members are barriers.
///   all_reduce(value, op)         returns op over the values of all threads to each of them; op is
///                                 associative and commutative, and a value has up to 8 bytes
///   exclusive_sum(value, total)   returns the sum of the values of the threads before this one,
///                                 and sets `total` to the sum of all
template <class B>
concept ReducingBlock = ThreadBlock<B> && requires(B& block, int32_t value, int32_t& total) {
  { block.all_reduce(value, Maximum{}) } -> std::same_as<int32_t>;
  { block.all_reduce(true, Either{}) } -> std::same_as<bool>;
  { block.exclusive_sum(value, total) } -> std::same_as<int32_t>;
};

/// Loads *p, which no thread writes while the kernel runs. So a GPU may load it before earlier
/// stores are done.
template <class T>
RTFX_DEVICE T load_constant(const T* p) {
#ifdef __CUDA_ARCH__
  return __ldg(p);
#else
  return *p;
#endif
}

/// A block of one thread of the CPU.
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
static_assert(ReducingBlock<SerialBlock>);

}  // namespace rtfx
