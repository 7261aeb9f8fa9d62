#include "harness/run/shard_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

namespace rtfx {
namespace {

using std::chrono::milliseconds;

Shard shard(int64_t index) { return {.index = index, .count = 3}; }

/// The watch of shard 0, which keeps the ends that it notices.
class ShardWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    watch_.emplace(shard(0), [this](const std::string& label, const std::string& what) {
      const std::scoped_lock lock(mutex_);
      ends_.push_back(label + ": " + what);
      return "cause: " + what;
    });
  }

  std::unique_ptr<WatchedShard> connect(int64_t index) const {
    return WatchedShard::connect(shard(index), watch_->address(), {"127.0.0.1"});
  }

  std::vector<std::string> ends() {
    const std::scoped_lock lock(mutex_);
    return ends_;
  }

  /// Waits for a cause; empty after a second without one.
  static std::string cause_of(WatchedShard& watched) {
    for (int i = 0; i < 100 && watched.cause().empty(); ++i)
      std::this_thread::sleep_for(milliseconds(10));
    return watched.cause();
  }

  std::mutex mutex_;
  std::vector<std::string> ends_;
  std::optional<ShardWatch> watch_;
};

TEST_F(ShardWatchTest, AClosedConnectionIsTheEndOfAShardAndAllAreTold) {
  const auto first = connect(1);
  auto second = connect(2);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->cause(), "");
  second.reset();
  EXPECT_EQ(cause_of(*first), "cause: " + end_of_this_process(shard(2)));
  EXPECT_EQ(ends(), std::vector{"2-of-3: " + end_of_this_process(shard(2))});
}

TEST_F(ShardWatchTest, OneThatIsDoneHasNotEndedEarly) {
  const auto first = connect(1);
  auto second = connect(2);
  second->done();
  second.reset();
  EXPECT_EQ(cause_of(*first), "");
  EXPECT_TRUE(ends().empty());
}

TEST_F(ShardWatchTest, TheEndOfShardZeroIsKnownWithAndWithoutACause) {
  const auto first = connect(1);
  watch_.reset();
  EXPECT_EQ(cause_of(*first), end_of_this_process(shard(0)));
  SetUp();
  const auto second = connect(1);
  watch_->tell("no memory");
  watch_.reset();
  EXPECT_EQ(cause_of(*second), "no memory");
}

TEST_F(ShardWatchTest, StrangersAreNoShards) {
  WatchAddress address = watch_->address();
  address.token = "another";
  EXPECT_EQ(WatchedShard::connect(shard(1), address, {"127.0.0.1"}), nullptr);
  EXPECT_EQ(WatchedShard::connect(shard(1), watch_->address(), {"no such host"}), nullptr);
  EXPECT_NE(WatchedShard::connect(shard(1), watch_->address(), {"no such host", "127.0.0.1"}),
            nullptr);
  EXPECT_EQ(WatchAddress::read(address.text()).port, address.port);
}

}  // namespace
}  // namespace rtfx
