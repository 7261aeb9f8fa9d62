// Tests the table of metrics, from which readers and writers of journals take their rules.
#include "harness/results/metric_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>

#include "harness/results/metrics.h"

namespace rtfx {
namespace {

// A row must say where its metric comes from, and how shards are merged if runs store it.
static_assert(!std::is_default_constructible_v<MetricInfo>);
static_assert(!std::is_default_constructible_v<StoredInRun>);
static_assert(!std::is_constructible_v<StoredInRun, unsigned>);

TEST(MetricTable, EachKeyIsThereOnce) {
  std::set<std::string> keys;
  for (const MetricInfo& metric : metric_table())
    EXPECT_TRUE(keys.insert(metric.key).second) << metric.key;
}

TEST(MetricTable, EveryComputedMetricHasAFunctionAndEveryFunctionARow) {
  EXPECT_NO_THROW(metrics());
}

TEST(MetricTable, FindsOnlyWhatRunsStore) {
  ASSERT_NE(find_stored_in_run("memory.peak_mib"), nullptr);
  EXPECT_EQ(find_stored_in_run("memory.peak_mib")->merge, Merge::greatest);
  for (const char* key : {"wer", "stream.rtfx", "unknown"})
    EXPECT_EQ(find_stored_in_run(key), nullptr) << key;
}

}  // namespace
}  // namespace rtfx
