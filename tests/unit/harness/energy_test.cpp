#include "harness/machine/energy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

namespace rtfx {
namespace {

/// Readings of a counter that is updated every 100 ms from `watts(t)` and read every 5 ms.
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
  EXPECT_EQ(power->updates, 19);  // the first of 20 steps is where the time begins
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
  EXPECT_GT(power->watts, 20);  // a joule every 5 ms, or as slowly as a busy machine comes to it
  EXPECT_LT(power->watts, 210);
  EXPECT_FALSE(EnergyMeter([] { return std::nullopt; }).end());
}

}  // namespace
}  // namespace rtfx
