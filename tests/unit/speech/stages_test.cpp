#include "speech/runtime/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/nvtx.h"

namespace rtfx {
namespace {

const auto kNothing = [] { return std::shared_ptr<void>(); };

std::function<bool(size_t)> fewer_than(size_t items) {
  return [items](size_t item) { return item < items; };
}

TEST(InterruptWatch, TheSecondSignalEndsTheProcessAlsoIfItIsTheOther) {
  const auto interrupt_twice = [](int first, int second) {
    const InterruptWatch watch;
    std::raise(first);
    if (is_interrupted()) std::raise(second);
    std::_Exit(0);
  };
  for (const int first : {SIGINT, SIGTERM}) {
    for (const int second : {SIGINT, SIGTERM})
      EXPECT_EXIT(interrupt_twice(first, second), testing::KilledBySignal(second), "");
  }
}

class Stages : public testing::Test {
 protected:
  // NVTX sets itself up at its first call, which two threads must not make at once.
  static void SetUpTestSuite() { const ScopedRange first(RangeName::load); }
};

TEST_F(Stages, EveryItemPassesEveryStageInOrder) {
  for (const size_t in_flight : {1, 2, 4, 50}) {
    constexpr size_t kItems = 200;
    std::vector<int> slots(in_flight);
    std::vector<size_t> seen;
    const std::vector<Stage> stages = {
        {"first", [&](size_t i) { slots[i % in_flight] = static_cast<int>(i); }},
        {"second", [&](size_t i) { slots[i % in_flight] *= 2; }},
        {"third", [&](size_t i) {
           EXPECT_EQ(slots[i % in_flight], 2 * static_cast<int>(i));
           seen.push_back(i);
         }}};
    run_stages(stages, in_flight, fewer_than(kItems), kNothing);
    std::vector<size_t> expected(kItems);
    std::iota(expected.begin(), expected.end(), size_t{0});
    EXPECT_EQ(seen, expected) << in_flight;
  }
}

TEST_F(Stages, NoMoreThanSoManyAreInFlightAndAllStagesWorkAtOnce) {
  constexpr size_t kInFlight = 3;
  std::atomic<int> in_flight = 0, most = 0;
  std::barrier together(3);  // nobody passes unless three stages are at work at the same time
  const auto meet = [&](size_t item, size_t stage) {
    if (item + stage >= 12 && item + stage < 22) together.arrive_and_wait();
  };
  const std::vector<Stage> stages = {{"first",
                                      [&](size_t item) {
                                        most = std::max<int>(most, ++in_flight);
                                        meet(item, 0);
                                      }},
                                     {"second", [&](size_t item) { meet(item, 1); }},
                                     {"third", [&](size_t item) {
                                        meet(item, 2);
                                        --in_flight;
                                      }}};
  run_stages(stages, kInFlight, fewer_than(100), kNothing);
  EXPECT_EQ(most, 3);
}

TEST_F(Stages, OneInFlightStaysOnTheCallingThread) {
  const auto here = std::this_thread::get_id();
  int calls = 0;
  const auto work = [&](size_t) {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), here);
  };
  run_stages({{"a", work}, {"b", work}}, 1, fewer_than(5), kNothing);
  EXPECT_EQ(calls, 10);
}

TEST_F(Stages, WhatOneThrowsEndsAllAndIsThrownOnce) {
  for (const size_t in_flight : {1, 4}) {
    for (const size_t failing : {0, 1, 2}) {
      std::array<size_t, 3> done{};
      std::vector<Stage> stages;
      for (size_t s = 0; s < 3; ++s) {
        stages.push_back({"stage", [&, s](size_t item) {
                            if (s == failing && item == 7) throw std::runtime_error("item 7");
                            ++done[s];
                          }});
      }
      try {
        run_stages(stages, in_flight, fewer_than(1000), kNothing);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "item 7");
      }
      EXPECT_EQ(done[failing], 7U);
      EXPECT_LE(done[2], 7U);
      EXPECT_LE(done[0], 7 + in_flight);
    }
  }
  const auto broken = [](size_t) -> bool { throw std::logic_error("no source"); };
  EXPECT_THROW(run_stages({{"a", [](size_t) {}}}, 4, broken, kNothing), std::logic_error);
  EXPECT_THROW(run_stages({{"a", [](size_t) {}}, {"b", [](size_t) {}}}, 4, fewer_than(3),
                          []() -> std::shared_ptr<void> { throw std::logic_error("no thread"); }),
               std::logic_error);
}

TEST_F(Stages, EveryThreadEntersAndLeaves) {
  std::atomic<int> entered = 0, left = 0;
  const auto enter = [&] {
    ++entered;
    return std::shared_ptr<void>(nullptr, [&](void*) { ++left; });
  };
  run_stages({{"a", [](size_t) {}}, {"b", [](size_t) {}}}, 2, fewer_than(3), enter);
  EXPECT_EQ(entered, 2);
  EXPECT_EQ(left, 2);
  run_stages({{"a", [](size_t) {}}}, 2, fewer_than(0), enter);
  EXPECT_EQ(left, 3);
}

}  // namespace
}  // namespace rtfx
