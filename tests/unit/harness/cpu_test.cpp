#include "harness/machine/cpu.h"

#include <gtest/gtest.h>

#include <sstream>

#include "harness/machine/conditions.h"

namespace rtfx {
namespace {

constexpr const char* kTwoCpus =
    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
    "model name\t: AMD EPYC\nstepping\t: 1\nmicrocode\t: 0x1000065\ncpu MHz\t\t: 2596.098\n"
    "cache size\t: 1024 KB\nflags\t\t: fpu hypervisor\n\n"
    "processor\t: 1\nmodel\t\t: 99\n";

TEST(Cpu, TheFirstOneOfCpuinfo) {
  std::istringstream text(kTwoCpus);
  const CpuIdentity cpu = read_cpuinfo(text);
  EXPECT_EQ(cpu.family, 25);
  EXPECT_EQ(cpu.model_number, 17);
  EXPECT_EQ(cpu.stepping, 1);
  EXPECT_EQ(cpu.cache_kib, 1024);
  EXPECT_FALSE(cpu.clock_mhz);  // the file tells only the clock of the moment
}

TEST(Cpu, WhatTheKernelDoesNotTellIsNotKnown) {
  std::istringstream text("processor\t: 0\nstepping\t: unknown\nmodel name\t:\n");
  const CpuIdentity cpu = read_cpuinfo(text);
  EXPECT_FALSE(cpu.family || cpu.model_number || cpu.stepping || cpu.cache_kib || cpu.clock_mhz);
}

/// 500,000 steps of nine cycles take 0.9 ms at 5 GHz, and no CPU of today is ten times as slow.
TEST(Cpu, TheCalibrationIsThatOfAFixedNumberOfCycles) {
  const double first = calibration_ms();
  EXPECT_GT(first, 0.5);
  EXPECT_LT(first, 9);
  EXPECT_NEAR(calibration_ms(), first, 0.5 * first);
}

TEST(Cpu, BusySecondsCountStolenTimeAndNoWaiting) {
  std::istringstream stat("cpu  1000 200 300 90000 5000 10 20 70 400 0\ncpu0 1 2 3 4\n");
  EXPECT_EQ(busy_seconds(stat, 100), 16);
  std::istringstream old("cpu  1000 0 0 9000\n"), empty("cpu  0 0 0 0 0 0 0 0\n"), none("");
  EXPECT_EQ(busy_seconds(old, 100), 10);
  EXPECT_FALSE(busy_seconds(empty, 100));
  EXPECT_FALSE(busy_seconds(none, 100));
}

}  // namespace
}  // namespace rtfx
