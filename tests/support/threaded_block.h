// A block of threads (algorithms/gpu/thread_block.h) on a CPU.
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "algorithms/gpu/thread_block.h"

namespace rtfx::test {

class ThreadedBlock {
 public:
  struct Shared {
    explicit Shared(int32_t threads) : barrier(threads), values(static_cast<size_t>(threads)) {}
    std::barrier<> barrier;
    std::vector<uint64_t> values;
  };

  ThreadedBlock(Shared& shared, int32_t thread) : shared_(shared), thread_(thread) {}

  int32_t thread() const { return thread_; }
  int32_t threads() const { return static_cast<int32_t>(shared_.values.size()); }
  void sync() const { shared_.barrier.arrive_and_wait(); }

  template <class T, class Op>
  T all_reduce(T value, const Op& op) const {
    std::memcpy(&shared_.values[static_cast<size_t>(thread_)], &value, sizeof(T));
    sync();
    T total;
    std::memcpy(&total, &shared_.values[0], sizeof(T));
    for (size_t i = 1; i < shared_.values.size(); ++i) {
      T next;
      std::memcpy(&next, &shared_.values[i], sizeof(T));
      total = op(total, next);
    }
    sync();
    return total;
  }

  int32_t exclusive_sum(int32_t value, int32_t& total) const {
    shared_.values[static_cast<size_t>(thread_)] = static_cast<uint64_t>(value);
    sync();
    const auto first = shared_.values.begin();
    const uint64_t before = std::accumulate(first, first + thread_, uint64_t{0});
    total = static_cast<int32_t>(std::accumulate(first + thread_, shared_.values.end(), before));
    sync();
    return static_cast<int32_t>(before);
  }

 private:
  Shared& shared_;
  int32_t thread_;
};
static_assert(ReducingBlock<ThreadedBlock>);

/// Runs the blocks of a phase (algorithms/shared/fused_beam) one after the other, each with
/// `threads` threads.
template <class Phase>
void run_by_threads(const Phase& phase, int32_t threads) {
  std::vector<std::byte> memory(static_cast<size_t>(phase.shared_bytes()));
  ThreadedBlock::Shared shared(threads);
  std::vector<std::jthread> running;
  for (int32_t thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      ThreadedBlock block(shared, thread);
      for (int32_t i = 0; i < phase.blocks(); ++i) {
        phase(block, i, memory.data());
        block.sync();  // the next block uses the same memory
      }
    });
  }
}

}  // namespace rtfx::test
