// Tests how the shards of successive runs meet in one store, as under one torchrun.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/error.h"
#include "harness/run/session.h"

namespace rtfx {
namespace {

using Place = std::unique_ptr<Rendezvous>;

/// The store of a launcher, which outlives runs of two shards.
class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest() {
    c10d::TCPStoreOptions options;
    options.port = 0;  // a free one
    options.isServer = true;
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }

  /// Begins to wait for the other shard of a run with the settings `run`.
  std::future<Place> come(int64_t index, const std::string& run = "settings") const {
    Shard shard;
    shard.index = shard.local_index = index;
    shard.count = shard.local_count = 2;
    shard.port = store_->getPort();
    shard.launcher_listens = true;
    return std::async(std::launch::async,
                      [shard, run] { return std::make_unique<Rendezvous>(shard, run); });
  }

  static std::future<void> begin_barrier(const Place& place) {
    return std::async(std::launch::async, [&place] { place->barrier("x"); });
  }

  /// Returns whether the future is not ready. A waiting shard looks at the store once a second.
  static bool waits(const auto& future, int milliseconds = 1500) {
    return future.wait_for(std::chrono::milliseconds(milliseconds)) == std::future_status::timeout;
  }

  std::pair<Place, Place> both_come() const {
    auto first = come(0), second = come(1);
    Place one = first.get();
    return {std::move(one), second.get()};
  }

  c10::intrusive_ptr<c10d::TCPStore> store_;
};

TEST_F(RendezvousTest, ASecondRunWithTheSameSettingsHasBarriersOfItsOwn) {
  for (int run = 0; run < 2; ++run) {
    auto [first, second] = both_come();
    auto lone = begin_barrier(first);
    EXPECT_TRUE(waits(lone)) << run;
    begin_barrier(second).get();
    EXPECT_NO_THROW(lone.get()) << run;
    second->leave("this ends the run");  // which is no cause for the next run to end
    second.reset();
  }
}

TEST_F(RendezvousTest, AnEarlyShardDoesNotJoinARunThatWasRefused) {
  auto first = come(0), second = come(1, "other settings");
  EXPECT_THROW(first.get(), UserError);
  EXPECT_THROW(second.get(), UserError);
  auto coming = come(1);
  EXPECT_TRUE(waits(coming));
  const Place one = come(0).get();
  const Place other = coming.get();  // ends before shard 0 does, which waits for it
}

/// The shard may wait for as long as shard 0 works, for example on the merged journal.
TEST_F(RendezvousTest, AShardWaitsForTheRunAfterItsLastOne) {
  for (const char* settings : {"settings", "others"}) {
    auto [first, second] = both_come();
    second.reset();
    auto coming = come(1, settings);
    EXPECT_TRUE(waits(coming, /*milliseconds=*/3500)) << settings;
    first.reset();
    const Place one = come(0, settings).get();
    const Place other = coming.get();  // ends before shard 0 does, which waits for it
    EXPECT_NE(other, nullptr);
  }
}

}  // namespace
}  // namespace rtfx
