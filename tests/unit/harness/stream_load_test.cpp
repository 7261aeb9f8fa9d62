// Tests the load of a streaming server and its queue, on a made-up clock.
#include "harness/stream/stream_load.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/stream/stream_server.h"

namespace rtfx {
namespace {

class MadeUpClock : public LoadClock {
 public:
  double now() override { return now_; }
  void wait_until(double time) override {
    EXPECT_GT(time, now_);  // or the server would spin
    now_ = time;
  }
  void pass(double seconds) { now_ += seconds; }

 private:
  double now_ = 0;
};

/// Serves a load. A batch takes `fixed` seconds, and `each` seconds more for every request.
std::vector<ServedBatch> served(const std::vector<Request>& load, const DynamicBatcher& batcher,
                                double fixed, double each = 0) {
  MadeUpClock clock;
  return serve(load, batcher, clock, [&](const std::vector<Request>& requests) {
    clock.pass(fixed + each * static_cast<double>(requests.size()));
    Work work;
    for (const Request& request : requests) work.served.push_back({request, request.stream == 3});
    return work;
  });
}

TEST(StreamLoad, ATrialThatCannotKeepItsRuleIsStopped) {
  // A request comes each 0.1 s for one second, and its work takes 0.3 s. So request i begins
  // 0.2 i s late.
  const auto load = make_load(1, {"lockstep", 0.1}, 1.0, 3);
  ASSERT_EQ(load.size(), 10U);
  const auto until = [&](double from, double share) {
    MadeUpClock clock;
    LateRequests late(load, from, share, 0.5);
    const auto work = [&](const std::vector<Request>& requests) {
      clock.pass(0.3);
      Work done;
      for (const Request& request : requests) done.served.push_back({request, false});
      return done;
    };
    return serve(load, DynamicBatcher(1, 0), clock, work,
                 [&](const ServedBatch& batch) { return late.too_many(batch); })
        .size();
  };
  EXPECT_EQ(until(0, 0), 4U);       // request 3 is the first that is more than 0.5 s late
  EXPECT_EQ(until(0, 0.2), 6U);     // two of ten may be late
  EXPECT_EQ(until(0.45, 0.2), 7U);  // one of the last five may be late
  EXPECT_EQ(until(0, 0.7), 10U);    // all seven late ones may be
}

std::vector<int64_t> streams_of(const std::vector<Request>& requests) {
  std::vector<int64_t> streams;
  for (const Request& request : requests) streams.push_back(request.stream);
  return streams;
}

std::vector<int64_t> streams_of(const ServedBatch& batch) {
  std::vector<int64_t> streams;
  for (const Served& one : batch.served) streams.push_back(one.request.stream);
  return streams;
}

TEST(StreamLoad, ConstantArrivalsHaveAPhaseEachAndOnePeriod) {
  const auto load = make_load(5, {"constant", 0.4}, 10, 3);
  ASSERT_EQ(load.size(), 5 * 25U);
  std::map<int64_t, std::vector<double>> times;
  for (size_t i = 0; i < load.size(); ++i) {
    if (i > 0) {
      EXPECT_LE(load[i - 1].arrival, load[i].arrival);
    }
    times[load[i].stream].push_back(load[i].arrival);
  }
  for (const auto& [stream, own] : times) {
    EXPECT_LT(own[0], 0.4);
    if (stream > 0) {
      EXPECT_NE(own[0], times[0][0]);
    }
    for (size_t i = 1; i < own.size(); ++i) EXPECT_NEAR(own[i] - own[i - 1], 0.4, 1e-9);
  }
  EXPECT_EQ(make_load(5, {"constant", 0.4}, 10, 3)[7].arrival, load[7].arrival);
  EXPECT_NE(make_load(5, {"constant", 0.4}, 10, 4)[7].arrival, load[7].arrival);
}

TEST(StreamLoad, PoissonArrivalsHaveTheRateAndSpreadOfChance) {
  const double seconds = 4000, period = 0.4;
  const auto load = make_load(10, {"poisson", period}, seconds, 1);
  const double expected = 10 * seconds / period;
  EXPECT_NEAR(static_cast<double>(load.size()), expected, 4 * std::sqrt(expected));
  // Gaps of chance have a standard deviation that equals their mean.
  double squares = 0;
  for (size_t i = 1; i < load.size(); ++i)
    squares += std::pow(load[i].arrival - load[i - 1].arrival, 2);
  const double mean = seconds / static_cast<double>(load.size());
  EXPECT_NEAR(squares / static_cast<double>(load.size()) / (2 * mean * mean), 1, 0.03);
}

TEST(StreamLoad, ABatchBeginsWhenItIsFullOrItsOldestHasWaited) {
  DynamicBatcher batcher(2, 0.5);
  EXPECT_EQ(batcher.ready_at(), std::numeric_limits<double>::infinity());
  batcher.add({1, 7});
  EXPECT_EQ(batcher.ready_at(), 1.5);
  batcher.add({1.1, 7});  // a batch takes one request of a stream
  EXPECT_EQ(batcher.ready_at(), 1.5);
  batcher.add({1.2, 3});
  EXPECT_EQ(batcher.ready_at(), -std::numeric_limits<double>::infinity());
  batcher.add({1.3, 5});
  EXPECT_EQ(streams_of(batcher.take()), std::vector<int64_t>({7, 3}));
  EXPECT_EQ(streams_of(batcher.take()), std::vector<int64_t>({7, 5}));
  EXPECT_TRUE(batcher.empty());
}

TEST(StreamLoad, TimesOfAWorkedExample) {
  // A batch has up to two requests, waits 10 ms and takes 100 ms.
  const auto batches =
      served({{0, 1}, {0.02, 2}, {0.03, 3}, {0.04, 4}, {0.3, 1}}, DynamicBatcher(2, 0.01), 0.1);
  ASSERT_EQ(batches.size(), 4U);
  const std::vector<double> begins = {0.01, 0.11, 0.21, 0.31};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(batches[i].begin, begins[i], 1e-12) << i;
  EXPECT_EQ(streams_of(batches[1]), std::vector<int64_t>({2, 3}));
  const LoadFigures figures = load_figures(batches, 0.02, 1, /*period=*/0.185);
  EXPECT_EQ(figures.requests, 4);
  EXPECT_EQ(figures.batches, 3);
  EXPECT_NEAR(figures.compute.mean, 0.1, 1e-12);
  EXPECT_NEAR(figures.queue.mean, (0.09 + 0.08 + 0.17 + 0.01) / 4, 1e-12);
  EXPECT_NEAR(figures.queue.p50, 0.08, 1e-12);
  EXPECT_NEAR(figures.total.p99, 0.27, 1e-12);
  EXPECT_NEAR(figures.mean_batch, 4.0 / 3, 1e-12);
  EXPECT_NEAR(figures.served_seconds, 0.41 - 0.02, 1e-12);
  EXPECT_EQ(figures.late, 2);  // totals are 190, 180, 270 and 110 ms
  EXPECT_EQ(load_figures(batches, 0.02, 1, /*period=*/0.085).late_starts, 2);  // 90, 80, 170, 10 ms
  EXPECT_EQ(figures.utterances, 1);
  EXPECT_NEAR(figures.last.p50, 0.18, 1e-12);
  EXPECT_NEAR(figures.busy, 0.3 / 0.39, 1e-12);
}

TEST(StreamLoad, PendingRequestsShareTheNextBatchAndNeverWait) {
  // Requests of stream 3 need a second batch. A batch has up to two requests, waits 50 ms and takes
  // 100 ms.
  MadeUpClock clock;
  std::vector<Request> pending;
  std::vector<std::vector<int64_t>> taken;
  const std::vector<Request> load = {{0, 3}, {0.12, 1}, {0.13, 2}, {1, 3}};
  const auto batches =
      serve(load, DynamicBatcher(2, 0.05), clock, [&](const std::vector<Request>& requests) {
        clock.pass(0.1);
        taken.push_back(streams_of(requests));
        Work work;
        for (const Request& request : pending) work.served.push_back({request, true});
        pending.clear();
        for (const Request& request : requests) {
          if (request.stream == 3)
            pending.push_back(request);
          else
            work.served.push_back({request, false});
        }
        work.pending = pending.size();
        return work;
      });
  using Lists = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(taken, (Lists{{3}, {1, 2}, {3}, {}}));
  ASSERT_EQ(batches.size(), 4U);
  EXPECT_EQ(streams_of(batches[0]), std::vector<int64_t>());
  EXPECT_NEAR(batches[1].begin, 0.15, 1e-12);  // at once, before those of 0.12 have waited enough
  EXPECT_EQ(streams_of(batches[1]), std::vector<int64_t>({3, 1, 2}));
  EXPECT_EQ(streams_of(batches[3]), std::vector<int64_t>({3}));
  const LoadFigures figures = load_figures(batches, 0, 2, /*period=*/0.4);
  EXPECT_EQ(figures.requests, 4);
  EXPECT_EQ(figures.batches, 4);  // work that served no request counts
  EXPECT_EQ(figures.utterances, 2);
  EXPECT_NEAR(figures.last.max, 0.25, 1e-12);
}

TEST(StreamLoad, TheMostStreamsWithinALimit) {
  for (const int64_t limit : {0, 1, 2, 5, 64, 100, 1000}) {
    for (const int64_t first : {1, 7, 300}) {
      std::vector<int64_t> asked;
      const int64_t most = most_within(first, 2, [&](int64_t n) {
        asked.push_back(n);
        return n <= limit;
      });
      EXPECT_LE(most, limit);
      EXPECT_GE(static_cast<double>(most), 0.95 * static_cast<double>(limit) - 1) << first;
      std::ranges::sort(asked);
      EXPECT_EQ(std::ranges::adjacent_find(asked), asked.end()) << limit << " " << first;
    }
  }
}

TEST(StreamLoad, AFirstNumberThatIsTooLargeFallsByTheGrowth) {
  std::vector<int64_t> asked;
  const int64_t most = most_within(1000, 1.25, [&](int64_t n) {
    asked.push_back(n);
    return n <= 600;
  });
  EXPECT_EQ(asked, (std::vector<int64_t>{1000, 800, 512, 656, 584, 620, 602}));
  EXPECT_EQ(most, 584);
}

TEST(StreamLoad, ANumberThatIsNotConfirmedIsSearchedBelow) {
  for (const int64_t limit : {1, 5, 64, 1000}) {
    for (const int64_t lasting : {int64_t{0}, limit / 2, 9 * limit / 10, limit}) {
      std::vector<int64_t> asked;
      const int64_t most = most_within(
          3, 1.25, [&](int64_t n) { return n <= limit; },
          [&](int64_t n) {
            asked.push_back(n);
            return n <= lasting;
          });
      EXPECT_LE(most, lasting);
      EXPECT_GE(static_cast<double>(most), 0.9 * static_cast<double>(lasting) - 1) << limit;
      if (most > 0) {
        EXPECT_EQ(asked.back(), most);
      }
      std::ranges::sort(asked);
      EXPECT_EQ(std::ranges::adjacent_find(asked), asked.end()) << limit << " " << lasting;
    }
  }
}

TEST(StreamLoad, StreamsBeginTogetherOrOverTheStagger) {
  const auto together = make_load(6, {"lockstep", 0.5}, 2, 1);
  ASSERT_EQ(together.size(), 6 * 4U);
  for (size_t i = 0; i < together.size(); ++i)
    EXPECT_EQ(together[i].arrival, 0.5 * static_cast<double>(i / 6));
  const auto staggered = make_load(1000, {"staggered", 0.5, 10}, 20, 1);
  std::map<int64_t, double> first;
  for (const Request& one : staggered) first.emplace(one.stream, one.arrival);
  ASSERT_EQ(first.size(), 1000U);
  double sum = 0;
  for (const auto& [stream, time] : first) {
    EXPECT_LT(time, 10);
    sum += time;
  }
  EXPECT_NEAR(sum / 1000, 5, 0.4);
}

TEST(ShownText, CountsDelaysAndChanges) {
  ShownText shown(/*frame_seconds=*/0.1, /*sample_rate=*/1000);
  const auto show = [&](int64_t stream, size_t samples, std::vector<int32_t> tokens) {
    Hypothesis result;
    for (size_t i = 0; i < tokens.size(); ++i) result.frames.push_back(static_cast<int32_t>(i));
    result.tokens = std::move(tokens);
    shown.show(stream, samples, result);
  };
  show(1, 200, {});
  show(1, 400, {5, 6});     // the first token ends at 0.1 s, the second at 0.2 s
  show(2, 500, {5});        // another stream has its own
  show(1, 900, {5, 7, 8});  // token 6 is gone
  ASSERT_EQ(shown.first_delays().size(), 2U);
  EXPECT_NEAR(shown.first_delays()[0], 0.3, 1e-12);
  EXPECT_NEAR(shown.first_delays()[1], 0.4, 1e-12);
  ASSERT_EQ(shown.lags().size(), 3U);
  EXPECT_NEAR(shown.lags()[0], 0.2, 1e-12);
  EXPECT_NEAR(shown.lags()[2], 0.6, 1e-12);
  EXPECT_NEAR(shown.changed(), 1.0 / 5, 1e-12);  // one of five tokens: 5 6, 5, 7 8
}

TEST(StreamLoad, WorkThatArrivesFasterThanItIsDoneGrowsTheQueue) {
  const auto load = make_load(10, {"constant", 0.1}, 60, 1);  // 100 a second
  const auto too_slow = load_figures(served(load, DynamicBatcher(1, 0), 0.0125), 6, 60, 0.4);
  EXPECT_NEAR(too_slow.queue_slope, 0.25, 0.01);  // 1.25 s of work come in a second
  EXPECT_NEAR(100 * 54 / too_slow.served_seconds, 80, 10);
  const auto fast_enough = load_figures(served(load, DynamicBatcher(1, 0), 0.0095), 6, 60, 0.4);
  EXPECT_NEAR(fast_enough.queue_slope, 0, 1e-4);
  // Larger batches keep up, if a batch takes little more time than one request.
  const auto batched = load_figures(served(load, DynamicBatcher(8, 0), 0.0115, 0.001), 6, 60, 0.4);
  EXPECT_NEAR(batched.queue_slope, 0, 1e-3);
  EXPECT_GT(batched.mean_batch, 1.2);
}

TEST(StreamLoad, PoissonArrivalsAndEqualServiceAreMD1) {
  for (const double load : {0.5, 0.7, 0.9}) {
    const double service = 0.01, period = 40 * service / load;
    const auto requests = make_load(40, {"poisson", period}, 20000, 5);
    const auto figures =
        load_figures(served(requests, DynamicBatcher(1, 0), service), 200, 20000, 0.4);
    const double expected = md1_total(service, load / service).value();
    EXPECT_NEAR(figures.total.mean / expected, 1, 0.02) << load;
  }
}

TEST(Queueing, HasTheWorkedNumbersOfMD1) {
  for (const auto& [load, expected] : {std::pair(0.5, 1.5), {0.7, 2.167}, {0.9, 5.5}, {0.95, 10.5}})
    EXPECT_NEAR(md1_total(1, load).value(), expected, 5e-4);
  EXPECT_FALSE(md1_total(0.5, 2));
  EXPECT_FALSE(md1_total(0.5, 3));
  // The work is 30.1 ms at 20.55 batches a second, and 53.7 ms at 17.38. Rates are rounded, so the
  // totals are only nearly these.
  EXPECT_NEAR(md1_total(0.0301, 20.55).value(), 0.0545, 5e-5);
  EXPECT_NEAR(md1_total(0.0537, 17.38).value(), 0.4299, 1e-3);
}

}  // namespace
}  // namespace rtfx
