#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "harness/run/session.h"

namespace rtfx {
namespace {

// Returns the lines of three steps. Standard error is a file here, as in CI, so no bar is drawn.
std::string lines_of_three_steps(Progress::Clock::duration between_lines) {
  testing::internal::CaptureStderr();
  Progress progress(4, between_lines);
  progress.label("rnnt b1 fp32");
  progress.label("rnnt b1 fp32");
  for (int step = 0; step < 3; ++step) progress.advance();
  progress.label("rnnt b4 fp32");
  return testing::internal::GetCapturedStderr();
}

TEST(Progress, OutsideATerminalEachCaseHasALine) {
  EXPECT_EQ(lines_of_three_steps(std::chrono::minutes(1)),
            "[0/4] rnnt b1 fp32\n"
            "[3/4] rnnt b4 fp32, 00:00 left\n");
}

TEST(Progress, OutsideATerminalALongCaseTellsItsSteps) {
  EXPECT_EQ(lines_of_three_steps({}),
            "[0/4] rnnt b1 fp32\n"
            "[1/4] rnnt b1 fp32, 00:00 left\n"
            "[2/4] rnnt b1 fp32, 00:00 left\n"
            "[3/4] rnnt b1 fp32, 00:00 left\n"
            "[3/4] rnnt b4 fp32, 00:00 left\n");
}

}  // namespace
}  // namespace rtfx
