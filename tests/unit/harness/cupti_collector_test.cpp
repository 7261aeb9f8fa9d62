#include "harness/profile/cupti_collector.h"

#include <gtest/gtest.h>

namespace rtfx {
namespace {

// Without a GPU, its driver or the library, the collector cannot collect, and must say so in one
// line.
TEST(CuptiCollector, CollectsOrSaysWhyNot) {
  std::string problem;
  const auto collector = CuptiCollector::start(GraphTrace::node, problem);
  if (!collector) {
    EXPECT_FALSE(problem.empty());
    EXPECT_EQ(problem.find('\n'), std::string::npos);
    GTEST_SKIP() << problem;
  }
  EXPECT_FALSE(collector->description().empty());
  const int64_t before = collector->now();
  EXPECT_GT(before, 0);
  collector->begin();
  const Activity activity = collector->end();
  EXPECT_TRUE(activity.kernels.empty());
  EXPECT_EQ(collector->dropped(), 0);
  EXPECT_GE(collector->now(), before);
}

}  // namespace
}  // namespace rtfx
