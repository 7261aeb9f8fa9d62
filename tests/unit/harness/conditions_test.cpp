#include "harness/machine/conditions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "harness/run/make_records.h"

namespace rtfx {
namespace {

using Reasons = std::vector<std::string>;

Conditions on_gpu(double mean_clock, uint64_t throttle = 0) {
  Conditions conditions;
  conditions.wall_seconds = 10;
  conditions.gpu.emplace();
  conditions.gpu->sm_clock_mean_mhz = conditions.gpu->sm_clock_min_mhz = mean_clock;
  conditions.gpu->sm_clock_max_mhz = 2000;
  conditions.gpu->throttle_reasons = throttle;
  return conditions;
}

TEST(Conditions, ALowMeanClockIsSuspect) {
  EXPECT_EQ(suspect_reasons(on_gpu(1980)), Reasons());
  EXPECT_EQ(suspect_reasons(on_gpu(1500)), Reasons());
  EXPECT_EQ(suspect_reasons(on_gpu(1499)), Reasons({"sm_clock"}));
}

/// NVML does not answer each time. A sample without a clock must not count in the clock's figures.
TEST(Conditions, ASampleWithoutAClockIsLeftOut) {
  GpuState good, failed;
  good.sm_clock_mhz = 1900;
  good.power_w = 500;
  failed.throttle_reasons = 0x4;
  Conditions conditions;
  conditions.wall_seconds = 10;
  conditions.gpu = gpu_conditions({failed, failed, failed, good}, 2000);
  EXPECT_EQ(conditions.gpu->sm_clock_mean_mhz, 1900.0);
  EXPECT_EQ(conditions.gpu->sm_clock_min_mhz, 1900.0);
  EXPECT_EQ(suspect_reasons(conditions), Reasons({"sw_power_cap"}));
  conditions.gpu = gpu_conditions({good, failed}, 2000);
  record::Run run;
  add_conditions(run, conditions, {});
  EXPECT_EQ(run.conditions->sm_clock_mhz->min, 1900.0);
  EXPECT_FALSE(run.conditions->power_w);  // the last sample has none
  conditions.gpu = gpu_conditions({failed}, 2000);
  EXPECT_EQ(suspect_reasons(conditions), Reasons({"sw_power_cap"}));
  add_conditions(run, conditions, {});
  EXPECT_FALSE(run.conditions->sm_clock_mhz);
}

TEST(Conditions, PowerAndHeatAreSuspectIdlingIsNot) {
  EXPECT_EQ(suspect_reasons(on_gpu(1980, 0x1 | 0x2 | 0x10)), Reasons());
  EXPECT_EQ(suspect_reasons(on_gpu(1980, 0x4)), Reasons({"sw_power_cap"}));
  EXPECT_EQ(suspect_reasons(on_gpu(1000, 0x40)), Reasons({"sm_clock", "hw_thermal"}));
}

TEST(Conditions, WaitingForACpuIsSuspect) {
  Conditions conditions;
  conditions.wall_seconds = 10;
  EXPECT_EQ(suspect_reasons(conditions), Reasons());  // not known
  conditions.cpu_wait_seconds = 0.9;
  EXPECT_EQ(suspect_reasons(conditions), Reasons());
  conditions.cpu_wait_seconds = 1.1;
  EXPECT_EQ(suspect_reasons(conditions), Reasons({"cpu_wait"}));
}

TEST(Conditions, AStoppedRoundIsSuspect) {
  Conditions conditions;
  conditions.wall_seconds = 100;
  conditions.stopped_seconds = 0.9;
  EXPECT_EQ(suspect_reasons(conditions), Reasons());
  conditions.stopped_seconds = 1.1;
  EXPECT_EQ(suspect_reasons(conditions), Reasons({"stopped"}));
  record::Run run;
  add_conditions(run, conditions, {"stopped"});
  EXPECT_EQ(run.conditions->stopped_seconds, 1.1);
}

/// The detector should tick every 50 ms. Two ticks are late: one by 5 s, and one by as little as on
/// a busy machine.
TEST(Conditions, OnlyLongDelaysAreStops) {
  using namespace std::chrono_literals;
  StopDetector stops(50ms, 10s);
  for (const double now : {10.05, 10.1, 10.35, 10.4, 15.45, 15.5})
    stops.tick(StopDetector::Duration(now));
  EXPECT_NEAR(stops.stopped_seconds(), 5, 1e-9);
}

/// Returns the state of a process, which is 'T' while it is stopped, or '?' if there is no process.
char state_of(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t name = text.rfind(") ");  // the end of the program's name, which may have blanks
  return name == text.npos ? '?' : text[name + 2];
}

/// A process stops itself, and its own child lets it go on 0.6 s later.
TEST(Conditions, AProcessThatWasStoppedKnowsIt) {
  using namespace std::chrono_literals;
  EXPECT_EXIT(
      {
        const pid_t child = getpid();
        const pid_t waker = fork();
        if (waker == 0) {
          const auto deadline = std::chrono::steady_clock::now() + 30s;
          while (state_of(child) != 'T' && std::chrono::steady_clock::now() < deadline)
            std::this_thread::sleep_for(5ms);
          std::this_thread::sleep_for(600ms);
          kill(child, SIGCONT);
          _exit(0);
        }
        ConditionSampler sampler(at::kCPU);
        sampler.begin();
        std::this_thread::sleep_for(200ms);
        raise(SIGSTOP);
        const Conditions conditions = sampler.end();
        const bool known = conditions.stopped_seconds > 0.3 &&
                           conditions.stopped_seconds < conditions.wall_seconds &&
                           suspect_reasons(conditions).back() == "stopped";
        _exit(known ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Conditions, ARecordWithoutAGpuHasNoClocks) {
  record::Run run;
  add_conditions(run, Conditions(), {});
  EXPECT_FALSE(run.conditions->sm_clock_mhz);
  add_conditions(run, on_gpu(1500, 0x4), {"sw_power_cap"});
  EXPECT_EQ(run.conditions->sm_clock_mhz->mean, 1500.0);
  EXPECT_EQ(*run.conditions->throttle, std::vector<std::string>{"sw_power_cap"});
  EXPECT_EQ(*run.suspect, std::vector<std::string>{"sw_power_cap"});
}

/// Busy threads that outnumber the cores wait for one another, while a sleeping thread does not
/// wait.
TEST(Conditions, SamplesWaitingThreads) {
  using namespace std::chrono_literals;
  ConditionSampler sampler(at::kCPU);
  sampler.begin();
  std::this_thread::sleep_for(100ms);
  const Conditions idle = sampler.end();
  if (!idle.cpu_wait_seconds) GTEST_SKIP() << "the kernel keeps no schedstat";
  EXPECT_GE(idle.wall_seconds, 0.1);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  const unsigned count = 2 * std::thread::hardware_concurrency() + 1;
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  sampler.begin();
  std::this_thread::sleep_for(300ms);
  const Conditions busy = sampler.end();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(suspect_reasons(busy), Reasons({"cpu_wait"}));
}

/// Returns readings, every 5 ms, of an energy counter under the power `watts(t)`. The counter is
/// updated every `period` seconds.
template <class Watts>
std::vector<EnergySample> samples(double seconds, const Watts& watts, double period = 0.1) {
  std::vector<EnergySample> list;
  double millijoules = 5e6, shown = millijoules;
  int64_t steps = 0;
  for (int64_t i = 0; 5e-3 * static_cast<double>(i) < seconds; ++i) {
    const double t = 5e-3 * static_cast<double>(i);
    millijoules += 5 * watts(t);
    if (t >= period * static_cast<double>(steps + 1)) {
      shown = millijoules;
      ++steps;
    }
    list.push_back({t, static_cast<uint64_t>(std::lround(shown))});
  }
  return list;
}

TEST(Energy, TheMeanIsFromStepToStep) {
  const auto power = mean_power(samples(2.05, [](double) { return 400.0; }));
  ASSERT_TRUE(power);
  EXPECT_NEAR(power->watts, 400, 0.5);
  EXPECT_EQ(power->updates, 19);  // time begins at the first of 20 steps
}

TEST(Energy, OtherPowerWithinTheTimeIsInTheMean) {
  const auto power = mean_power(samples(4, [](double t) { return t < 2 ? 200.0 : 600.0; }));
  ASSERT_TRUE(power);
  EXPECT_NEAR(power->watts, 400, 12);
}

TEST(Energy, TooShortATimeIsNotKnown) {
  const auto constant = [](double) { return 400.0; };
  EXPECT_FALSE(mean_power({}));
  EXPECT_FALSE(mean_power(samples(0.05, constant)));
  EXPECT_FALSE(mean_power(samples(1.0, constant)));
  EXPECT_TRUE(mean_power(samples(1.2, constant)));
}

TEST(Energy, AMeterReadsUntilItsEnd) {
  using namespace std::chrono_literals;
  uint64_t millijoules = 0;
  EnergyMeter meter([&] { return millijoules += 1000; });  // a step at every reading
  std::this_thread::sleep_for(300ms);
  const auto power = meter.end();
  ASSERT_TRUE(power);
  EXPECT_GT(power->watts, 20);  // a joule every 5 ms, or less often on a busy machine
  EXPECT_LT(power->watts, 210);
  EXPECT_FALSE(EnergyMeter([] { return std::nullopt; }).end());
}

}  // namespace
}  // namespace rtfx
