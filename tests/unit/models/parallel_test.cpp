#include "models/parallel.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace rtfx {
namespace {

class ParallelRanges : public ::testing::Test {
 protected:
  ParallelRanges() { at::set_num_threads(2); }
  ~ParallelRanges() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST_F(ParallelRanges, EachRowOnceByAsManyThreadsAsAreGiven) {
  std::vector<std::atomic<int>> times(7);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_ranges(7, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(i)];
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  for (const auto& count : times) EXPECT_EQ(count, 1);
  EXPECT_EQ(threads.size(), 2U);
}

TEST_F(ParallelRanges, NoMoreThanTheGrainIsNotDivided) {
  std::vector<int64_t> ends;
  parallel_ranges(
      7,
      [&](int64_t begin, int64_t end) {
        ends.insert(ends.end(), {begin, end});
      },
      /*grain=*/7);
  EXPECT_EQ(ends, (std::vector<int64_t>{0, 7}));
}

TEST_F(ParallelRanges, ThrowsWhatTheWorkThrows) {
  const auto work = [](int64_t, int64_t end) {
    if (end == 7) throw std::invalid_argument("the last");
  };
  EXPECT_THROW(parallel_ranges(7, work), std::invalid_argument);
}

}  // namespace
}  // namespace rtfx
