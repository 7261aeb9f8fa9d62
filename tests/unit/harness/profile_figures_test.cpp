#include "harness/profile/profile_figures.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "harness/profile/child_process.h"
#include "harness/profile/profile.h"

namespace rtfx {
namespace {

using nlohmann::json;

Activity with_kernels(const std::vector<Span>& spans) {
  Activity activity;
  activity.names = {"a", "b"};
  for (const Span& span : spans) activity.kernels.push_back({span, 0, 7, false});
  return activity;
}

TEST(ProfileFigures, WorkedExample) {
  const Activity activity = with_kernels({{0, 1000}, {500, 2000}, {5000, 6000}});
  const RegionFigures figures = region_figures(activity, {{0, 10000}}, {}, 5);
  EXPECT_EQ(figures.wall, 10000);
  EXPECT_EQ(figures.busy, 3000);
  EXPECT_DOUBLE_EQ(1 - *figures.busy_share(), 0.7);
  EXPECT_EQ(figures.kernels, 3);
  EXPECT_EQ(figures.kernel_time, 3500);
}

TEST(ProfileFigures, UnionOfSpans) {
  EXPECT_TRUE(merged({}).empty());
  EXPECT_TRUE(merged({{5, 5}, {7, 6}}).empty());
  const std::vector<Span> spans = merged({{8, 9}, {0, 4}, {1, 2}, {4, 6}});
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].begin, 0);
  EXPECT_EQ(spans[0].end, 6);
  EXPECT_EQ(spans[1].begin, 8);
}

TEST(ProfileFigures, ClipsToTheWindows) {
  EXPECT_EQ(covered({{-5, 2}, {8, 20}}, {{0, 10}}), 4);
  EXPECT_EQ(covered({{0, 100}}, {{10, 20}, {30, 35}}), 15);
  EXPECT_EQ(covered({{20, 30}}, {{0, 10}, {40, 50}}), 0);
  EXPECT_EQ(covered({{0, 3}, {2, 5}, {4, 9}}, {{1, 8}}), 7);
  EXPECT_EQ(covered({{0, 1}}, {}), 0);
}

TEST(ProfileFigures, AGraphIsUnderWayFromItsFirstKernelToItsLast) {
  Activity activity = with_kernels({{0, 10}, {20, 30}, {35, 40}, {60, 70}, {90, 95}});
  for (const size_t i : {1, 2, 3, 4}) activity.kernels[i].in_graph = true;
  activity.kernels[1].call = activity.kernels[3].call = 5;  // from 20 to 70
  activity.calls = {{{12, 15}, 1, 1, CallKind::graph_launch, 5},
                    {{80, 82}, 1, 1, CallKind::launch, 6}};
  const RegionFigures figures = region_figures(activity, {{0, 100}}, {}, 5);
  EXPECT_EQ(figures.busy, 40);
  EXPECT_EQ(figures.occupied, 65);
  EXPECT_DOUBLE_EQ(*figures.occupied_share(), 0.65);
}

TEST(ProfileFigures, KernelsAreOfTheInnermostRangeThatLaunchedThem) {
  Activity activity = with_kernels({{50, 60}, {60, 63}, {70, 90}, {95, 96}, {97, 99}});
  for (uint32_t i = 0; i < 5; ++i) activity.kernels[i].call = i + 1;
  // The calls are out of order, and the last call is in no range.
  activity.calls = {{{12, 13}, 1, 1, CallKind::launch, 3},
                    {{1, 2}, 1, 1, CallKind::launch, 1},
                    {{5, 6}, 1, 1, CallKind::launch, 2},
                    {{8, 9}, 1, 1, CallKind::launch, 4},
                    {{20, 21}, 1, 1, CallKind::launch, 5}};
  const std::vector<KernelFigures> found = kernels_by_range(
      activity, {{"row", {0, 10}}, {"step", {4, 7}}, {"empty", {10, 11}}, {"row", {12, 20}}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "row");
  EXPECT_EQ(found[0].count, 3);
  EXPECT_EQ(found[0].total, 10 + 20 + 1);
  EXPECT_EQ(found[1].name, "step");
  EXPECT_EQ(found[1].total, 3);
}

TEST(ProfileFigures, EmptyWindowHasNoShare) {
  const RegionFigures figures = region_figures(with_kernels({{0, 1}}), {}, {}, 5);
  EXPECT_FALSE(figures.busy_share().has_value());
  EXPECT_FALSE(figures.kernel_mean().has_value());
  EXPECT_FALSE(figures.idle_launch.has_value());
}

TEST(ProfileFigures, CopiesCountApart) {
  Activity activity = with_kernels({{0, 10}});
  activity.copies.push_back({{5, 20}, 0, 7, 64});
  activity.copies.push_back({{200, 220}, 0, 7, 64});
  const RegionFigures figures = region_figures(activity, {{0, 100}}, {}, 5);
  EXPECT_EQ(figures.busy, 10);
  EXPECT_EQ(figures.busy_copies, 20);
  EXPECT_EQ(figures.copies, 1);
  EXPECT_EQ(figures.copied_bytes, 64U);
}

TEST(ProfileFigures, TheLongestGapOfAWindow) {
  Activity activity = with_kernels({{-20, 10}, {15, 40}, {30, 50}, {190, 260}});
  const auto gap = [&](const std::vector<Span>& windows) {
    return region_figures(activity, windows, {}, 5).longest_gap;
  };
  EXPECT_EQ(gap({{0, 100}}), 50);            // behind the last kernel
  EXPECT_EQ(gap({{0, 50}}), 5);              // between two kernels
  EXPECT_EQ(gap({{120, 200}}), 70);          // before the first kernel
  EXPECT_EQ(gap({{0, 45}, {200, 250}}), 5);  // not between windows
  EXPECT_EQ(gap({{300, 310}}), 10);          // all of the window
  activity.copies.push_back({{60, 95}, 1, 7, 64});
  EXPECT_EQ(gap({{0, 100}}), 10);
}

TEST(ProfileFigures, CallsByFunctionWithoutThoseWithinOthers) {
  Activity activity;
  activity.names = {"cudaLaunchKernel", "cudaMemcpyAsync", "cuLaunchKernel"};
  activity.calls = {{{0, 10}, 0, 1, CallKind::launch, 1},
                    {{2, 8}, 2, 1, CallKind::launch, 1},
                    {{20, 24}, 0, 1, CallKind::launch, 2},
                    {{30, 50}, 1, 1, CallKind::other, 3},
                    {{500, 600}, 0, 1, CallKind::launch, 4}};
  const RegionFigures figures = region_figures(activity, {{0, 100}}, {}, 5);
  ASSERT_EQ(figures.calls.size(), 2U);
  EXPECT_EQ(figures.calls[0].name, "cudaMemcpyAsync");
  EXPECT_EQ(figures.calls[1].count, 2);
  EXPECT_EQ(figures.calls[1].total, 14);
  EXPECT_EQ(figures.calls[1].most, 10);
  EXPECT_EQ(region_figures(activity, {{0, 100}}, {}, 1).calls.size(), 1U);
}

TEST(ProfileFigures, IdleFromLaunchIntervals) {
  // One kernel of 1 us every 5 us, as in the paper that the figure is from, leaves 80 % idle.
  Activity activity;
  activity.names = {"kernel", "call"};
  for (int64_t i = 0; i < 4; ++i) {
    activity.kernels.push_back({{i * 5000 + 3000, i * 5000 + 4000}, 0, 7, false});
    activity.calls.push_back({{i * 5000, i * 5000 + 2000}, 1, 1, CallKind::launch});
  }
  const RegionFigures figures = region_figures(activity, {{0, 20000}}, {}, 5);
  ASSERT_TRUE(figures.idle_launch.has_value());
  EXPECT_DOUBLE_EQ(*figures.idle_launch, 0.8);
  EXPECT_DOUBLE_EQ(*figures.busy_share(), 0.2);
}

TEST(ProfileFigures, LaunchIntervalsDoNotSpanWindows) {
  Activity activity = with_kernels({{10, 11}, {1010, 1011}});
  activity.calls = {{{0, 1}, 1, 1, CallKind::launch},
                    {{5, 6}, 1, 1, CallKind::launch},
                    {{1000, 1001}, 1, 1, CallKind::launch},
                    {{1005, 1006}, 1, 1, CallKind::launch}};
  const RegionFigures figures = region_figures(activity, {{0, 20}, {1000, 1020}}, {}, 5);
  EXPECT_EQ(figures.launches, 4);
  EXPECT_DOUBLE_EQ(*figures.idle_launch, 0.8);  // 1 - 1 / 5
}

TEST(ProfileFigures, GraphsHaveNoLaunchInterval) {
  Activity activity = with_kernels({{10, 11}});
  activity.kernels[0].in_graph = true;
  activity.calls = {{{0, 1}, 1, 1, CallKind::launch},
                    {{3, 4}, 1, 1, CallKind::launch},
                    {{5, 6}, 1, 1, CallKind::graph_launch}};
  RegionFigures figures = region_figures(activity, {{0, 20}}, {}, 5);
  EXPECT_FALSE(figures.idle_launch.has_value());
  EXPECT_EQ(figures.graph_launches, 1);
  EXPECT_FALSE(figures.graphs_unseen());
  activity.kernels[0].in_graph = false;
  figures = region_figures(activity, {{0, 20}}, {}, 5);
  EXPECT_TRUE(figures.graphs_unseen());
}

TEST(ProfileFigures, CallsInsideOthersAndIgnoredOnesDoNotCount) {
  Activity activity = with_kernels({});
  activity.calls = {{{0, 10}, 1, 1, CallKind::launch},
                    {{2, 8}, 1, 1, CallKind::launch},  // the driver's part of the call
                    {{4, 6}, 1, 2, CallKind::launch},  // another thread
                    {{20, 25}, 1, 1, CallKind::synchronize},
                    {{30, 35}, 1, 1, CallKind::synchronize}};
  const RegionFigures figures = region_figures(activity, {{0, 100}}, {{29, 36}}, 5);
  EXPECT_EQ(figures.launches, 2);
  EXPECT_EQ(figures.synchronizations, 1);
  EXPECT_EQ(figures.synchronization_time, 5);
}

TEST(ProfileFigures, TopKernelsByTotalTime) {
  Activity activity = with_kernels({{0, 2}, {10, 12}});
  activity.kernels.push_back({{20, 23}, 1, 7, false});
  RegionFigures figures = region_figures(activity, {{0, 100}}, {}, 5);
  ASSERT_EQ(figures.top.size(), 2U);
  EXPECT_EQ(figures.top[0].name, "a");
  EXPECT_EQ(figures.top[0].count, 2);
  EXPECT_EQ(figures.top[0].total, 4);
  EXPECT_EQ(figures.top[1].least, 3);
  EXPECT_EQ(figures.top[1].most, 3);
  figures = region_figures(activity, {{0, 100}}, {}, 1);
  EXPECT_EQ(figures.top.size(), 1U);
}

TEST(ProfileFigures, KindsOfCalls) {
  EXPECT_EQ(classify_call("cudaLaunchKernel_v7000"), CallKind::launch);
  EXPECT_EQ(classify_call("cudaLaunchKernelExC_v11060"), CallKind::launch);
  EXPECT_EQ(classify_call("cuLaunchKernelEx"), CallKind::launch);
  EXPECT_EQ(classify_call("cudaLaunchHostFunc_v10000"), CallKind::other);
  EXPECT_EQ(classify_call("cudaGraphLaunch_v10000"), CallKind::graph_launch);
  EXPECT_EQ(classify_call("cudaStreamSynchronize_v3020"), CallKind::synchronize);
  EXPECT_EQ(classify_call("cudaMemcpyAsync_v3020"), CallKind::other);
}

TEST(ProfileFigures, ShortNames) {
  EXPECT_EQ(short_call_name("cudaMemcpyAsync_ptsz_v7000"), "cudaMemcpyAsync");
  EXPECT_EQ(short_call_name("cudaStreamGetCaptureInfo_v2_v11030"), "cudaStreamGetCaptureInfo");
  EXPECT_EQ(short_call_name("cuLaunchKernel"), "cuLaunchKernel");
  EXPECT_EQ(short_kernel_name("void at::native::(anonymous namespace)::copy<float, 4>(int, X<2>)"),
            "at::native::copy");
  EXPECT_EQ(short_kernel_name("void rtfx::beam::(anonymous namespace)::phase<rtfx::beam::Choose, "
                              "(int)128>(rtfx::beam::Choose)"),
            "rtfx::beam::phase<Choose>");
  EXPECT_EQ(short_kernel_name("void rtfx::look<__half>(rtfx::Search)"), "rtfx::look<__half>");
  EXPECT_EQ(short_kernel_name("rtfx::finish(X<int>)"), "rtfx::finish");
  EXPECT_EQ(short_kernel_name("ampere_sgemm_32x128_tn"), "ampere_sgemm_32x128_tn");
  EXPECT_EQ(short_kernel_name("void f<g(int)::{lambda(int)#1}>(T)"), "f");
  EXPECT_EQ(short_kernel_name("std::enable_if<true, void>::type ns::k<1>(int)"), "ns::k");
}

TEST(ProfileFigures, SumsByLapAreOfWhatBeginsInIt) {
  const std::vector<Span> laps = {{0, 100}, {110, 200}};
  EXPECT_EQ(sums_by_lap({{0, 10}, {20, 25}, {90, 130}, {105, 108}, {110, 111}}, laps),
            (std::vector<int64_t>{55, 1}));
  EXPECT_EQ(sums_by_lap({}, laps), (std::vector<int64_t>{0, 0}));
}

TEST(ProfileFigures, OverlappingKernelsCountOnceInALap) {
  Activity activity;
  for (const Span& time : {Span{0, 10}, Span{5, 15}, Span{50, 60}})
    activity.kernels.push_back({.time = time, .name = 0});
  EXPECT_EQ(sums_by_lap(merged(kernels_in(activity, {{0, 20}})), {{0, 100}}),
            (std::vector<int64_t>{15}));
}

/// Returns the names of the cases that `--only` leaves.
std::vector<std::string> chosen(const std::string& only, bool whole_name) {
  CaseGroup group;
  for (const char* name : {"rnnt/q/greedy/b2/fp32", "my-rnnt/q/greedy/b2/fp32"}) {
    group.decoders.emplace_back();
    group.decoders.back().case_name = name;
  }
  std::vector<std::string> names;
  for (const CaseGroup& one : single_cases({group}, only, whole_name))
    names.push_back(one.decoders.front().case_name);
  return names;
}

TEST(SingleCases, OnlyIsAPartOfTheNameOrTheWhole) {
  EXPECT_EQ(chosen("", false).size(), 2U);
  EXPECT_EQ(chosen("rnnt/q/greedy/b2/fp32", false).size(), 2U);
  EXPECT_EQ(chosen("rnnt/q/greedy/b2/fp32", true),
            std::vector<std::string>{"rnnt/q/greedy/b2/fp32"});
  EXPECT_THROW(chosen("rnnt", true), UserError);
}

/// Returns a profile of the case "c" with these regions.
record::Profile profile_of(const json& regions) {
  record::Profile profile;
  profile.case_name = "c";
  profile.regions.emplace();
  for (const auto& [name, region] : regions.items())
    (*profile.regions)[name] = record::ProfiledRegion::table().read(region);
  return profile;
}

/// Kernels fill 90 ms of a lap, which took 200 ms with the collector and 100 ms without it.
TEST(BusyShare, IsKernelTimeByTheTimeWithoutTheCollector) {
  const record::Profile alone = profile_of({{"decode", {{"lap_seconds", {0.099, 0.1, 0.101}}}}});
  record::Profile profile =
      profile_of({{"decode",
                   {{"wall_seconds", 0.6},
                    {"lap_seconds", {0.2, 0.2, 0.2}},
                    {"lap_kernel_seconds", {0.09, 0.09, 0.09}}}},
                  {"decode.loop", {{"lap_kernel_seconds", {0.09, 0.09, 0.09}}}},
                  {"encoder", {{"lap_kernel_seconds", {0.09, 0.09, 0.09}}}}});
  EXPECT_TRUE(add_busy(profile, {alone}));
  record::ProfiledRegion& decode = profile.regions->at("decode");
  const record::BusyShare* busy = known(decode.busy);
  ASSERT_NE(busy, nullptr);
  EXPECT_NEAR(busy->share, 0.9, 1e-3);
  EXPECT_LT(*busy->low, 0.9);
  EXPECT_GT(*busy->low, 0.85);
  EXPECT_GT(*busy->high, 0.9);
  EXPECT_EQ(known(decode.undisturbed_seconds)->size(), 3U);
  for (const char* name : {"decode.loop", "encoder"}) {
    const record::ProfiledRegion& region = profile.regions->at(name);
    EXPECT_TRUE(region.busy) << name;  // null
    EXPECT_EQ(known(region.busy), nullptr) << name;
  }

  // The times of kernels in a graph that was recorded as a whole are unknown.
  decode.lap_kernel_seconds = Nullable<std::vector<Number>>();
  add_busy(profile, {alone});
  EXPECT_EQ(known(decode.busy), nullptr);
  EXPECT_FALSE(add_busy(profile, {}));  // the case failed there
}

/// 1000 kernels a lap that seem to fill 100.3 of 100 ms are each measured 0.3 us too long.
TEST(BusyShare, WhatTheCollectorAddsToKernelsIsInTheError) {
  const auto region = [](double kernel_seconds, double low, int kernels = 2000) {
    return json{{"kernels", kernels},
                {"lap_kernel_seconds", {kernel_seconds, kernel_seconds}},
                {"undisturbed_seconds", {0.1, 0.1}},
                {"busy", {{"share", 10 * kernel_seconds}, {"low", low}, {"high", 1.2}}}};
  };
  const record::Profile full = profile_of({{"decode", region(0.1003, 1.001)}});
  const record::Profile half = profile_of({{"decode", region(0.05, 0.49)}});
  const double excess = kernel_excess({half, full});
  EXPECT_NEAR(excess, 3e-7, 1e-10);
  EXPECT_EQ(kernel_excess({half}), 0);
  // Three kernels a lap tell nothing, because the times of laps differ by more than the kernels
  // add.
  const record::Profile few = profile_of({{"d2h", region(0.1003, 1.001, 6)}});
  EXPECT_EQ(kernel_excess({few}), 0);
  EXPECT_EQ(kernel_excess({few, full}), excess);
  EXPECT_NEAR(*busy_within(half.regions->at("decode"), 2, excess)->low, 0.487, 1e-9);
  const auto busy = busy_within(full.regions->at("decode"), 2, excess);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->share, 1.0);
  EXPECT_NEAR(*busy->low, 0.998, 1e-9);
  EXPECT_EQ(*busy->high, 1.0);
  record::ProfiledRegion unknown;
  unknown.busy = Nullable<record::BusyShare>();
  EXPECT_FALSE(busy_within(unknown, 2, excess));
}

}  // namespace
}  // namespace rtfx
