#include "speech/pipeline/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace rtfx {
namespace {

size_t one(const size_t&) { return 1; }

TEST(ReadAhead, ItemsComeInOrderAndErrorsInTheirPlace) {
  for (const size_t threads : {1, 4}) {
    ReadAhead<size_t> items(
        100, {.threads = threads, .items = 7},
        [](size_t index) {
          if (index % 10 == 3) throw std::runtime_error(std::to_string(index));
          return index * index;
        },
        one);
    for (size_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(items.more());
      EXPECT_EQ(items.index(), i);
      if (i % 10 == 3) {
        EXPECT_THROW(items.next(), std::runtime_error);
      } else {
        EXPECT_EQ(items.next(), i * i);
      }
    }
    EXPECT_FALSE(items.more());
  }
}

/// Returns the number of items that are begun while nobody takes any. Waits for `least` of them,
/// and then for a moment in which more could begin.
size_t begun_ahead(const ReadAheadLimits& limits, size_t least) {
  using namespace std::chrono_literals;
  std::atomic<size_t> begun = 0;
  ReadAhead<size_t> items(
      1000, limits,
      [&](size_t index) {
        ++begun;
        return index;
      },
      [](const size_t&) { return size_t{10}; });
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (begun < least && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  return begun;
}

TEST(ReadAhead, ReadsAsFarAheadAsItMay) {
  EXPECT_EQ(begun_ahead({.threads = 3, .items = 5}, 5), 5U);
  // A thread that is reading when the limit is reached adds its item.
  const size_t begun = begun_ahead({.threads = 2, .items = 500, .bytes = 100}, 10);
  EXPECT_GE(begun, 10U);
  EXPECT_LE(begun, 11U);
}

TEST(ReadAhead, AnItemThatIsWaitedForIsReadWhateverTheLimit) {
  ReadAhead<size_t> items(
      5, {.threads = 2, .items = 4, .bytes = 1}, [](size_t index) { return index; },
      [](const size_t&) { return size_t{1000}; });
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(items.next(), i);
}

TEST(ReadAhead, MayEndEarlyAndHaveNothing) {
  ReadAhead<size_t> some(
      1000, {.threads = 2, .items = 8}, [](size_t index) { return index; }, one);
  EXPECT_EQ(some.next(), 0U);
  const ReadAhead<size_t> none(
      0, {}, [](size_t index) { return index; }, one);
  EXPECT_FALSE(none.more());
}

}  // namespace
}  // namespace rtfx
