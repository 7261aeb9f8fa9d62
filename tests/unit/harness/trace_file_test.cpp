#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/profile/nsight_export.h"
#include "harness/profile/profile_report.h"

namespace rtfx {
namespace {

using nlohmann::json;

json written(const TraceFile& trace) {
  const auto path =
      std::filesystem::temp_directory_path() / ("rtfx_trace_" + std::to_string(getpid()) + ".json");
  trace.write(path);
  json document = json::parse(std::ifstream(path));
  std::filesystem::remove(path);
  return document;
}

Activity some_activity() {
  Activity activity;
  activity.names = {"kernel \"x\"", "cudaLaunchKernel", "memset"};
  activity.kernels = {{{3000, 4000}, 0, 7, false}, {{6000, 7000}, 0, 13, false}};
  activity.copies = {{{4500, 5500}, 2, 7, 64}};
  activity.calls = {{{1500, 2000}, 1, 42, CallKind::launch}};
  return activity;
}

json complete_events(const json& document) {
  json events = json::array();
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] == "X") events.push_back(event);
  }
  return events;
}

TEST(TraceFile, OneProcessPerCaseAndATrackPerStream) {
  TraceFile trace(100, 2);
  trace.add_case("a", {{"decode", {1000, 9000}}}, some_activity());
  trace.add_case("b", {{"decode", {11000, 12000}}}, {});
  const json document = written(trace);
  EXPECT_EQ(trace.events(), 6);
  EXPECT_EQ(trace.left_out(), 0);
  const json events = complete_events(document);
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[0]["name"], "decode");
  EXPECT_EQ(events[0]["ts"], 0.0);
  EXPECT_EQ(events[0]["dur"], 8.0);
  EXPECT_EQ(events[2]["name"], "kernel \"x\"");
  EXPECT_NE(events[2]["tid"], events[4]["tid"]);
  EXPECT_EQ(events[3]["args"]["bytes"], 64);
  EXPECT_EQ(events[5]["pid"], 2);
  EXPECT_EQ(events[5]["ts"], 10.0);
}

TEST(TraceFile, OverTheLimitTheLateEventsAreLeftOut) {
  TraceFile trace(4, 2);
  trace.add_case("a", {{"decode", {1000, 9000}}}, some_activity());
  const json document = written(trace);
  const json events = complete_events(document);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["name"], "decode");
  EXPECT_EQ(events[1]["name"], "cudaLaunchKernel");
  EXPECT_EQ(trace.left_out(), 3);
  EXPECT_EQ(document["otherData"]["left_out_events"], 3);
  EXPECT_EQ(document["otherData"]["left_out_by_process"], json::array({3}));
  EXPECT_EQ(trace.summary(),
            "2 events, 3 late ones left out: --trace-limit; open it in ui.perfetto.dev");
}

TEST(TraceFile, SaysWhichCaseWasCut) {
  TraceFile trace(4, 2);
  trace.add_case("a", {{"decode", {1000, 9000}}}, {});
  trace.add_case("b", {{"decode", {11000, 19000}}}, some_activity());
  EXPECT_EQ(written(trace)["otherData"]["left_out_by_process"], json::array({0, 3}));
  TraceFile whole(100, 1);
  whole.add_case("a", {{"decode", {1000, 9000}}}, some_activity());
  EXPECT_EQ(whole.summary(), "5 events; open it in ui.perfetto.dev");
}

TEST(TraceFile, WhatBeginsLaterThanWantedIsNotLeftOutButAnother) {
  TraceFile trace(100, 1);
  trace.add_case("a", {{"decode", {1000, 9000}}, {"decode", {20000, 21000}}}, some_activity(),
                 10000);
  EXPECT_EQ(complete_events(written(trace)).size(), 5U);
  EXPECT_EQ(trace.left_out(), 0);
}

TEST(TraceFile, WithoutEventsItIsStillJson) {
  EXPECT_TRUE(written(TraceFile(10, 0))["traceEvents"].empty());
}

TEST(ProfileReport, UnknownFiguresAreNull) {
  const RegionFigures figures = region_figures(some_activity(), {{0, 10000}}, {}, 5);
  const json with = record::write(profiled_region(figures, true));
  EXPECT_DOUBLE_EQ(with["gpu.busy"], 0.2);
  EXPECT_DOUBLE_EQ(with["gpu.idle_with_copies"], 0.7);
  EXPECT_TRUE(with["gpu.idle_launch"].is_null());
  EXPECT_EQ(with["top_kernels"].size(), 1U);
  const json without = record::write(profiled_region(figures, false));
  for (const auto& [name, value] : without.items())
    EXPECT_EQ(value.is_null(), name != "wall_seconds") << name;
  RegionFigures unseen = figures;
  unseen.graph_launches = 1;
  EXPECT_TRUE(record::write(profiled_region(unseen, true))["gpu.busy"].is_null());
  unseen.graph_kernels = 1;
  EXPECT_FALSE(record::write(profiled_region(unseen, true))["gpu.busy"].is_null());
  EXPECT_TRUE(
      record::write(profiled_region(unseen, true, /*whole_graphs=*/true))["gpu.busy"].is_null());
}

TEST(ProfileReport, PhasesStandBehindTheirRegion) {
  Named<record::ProfiledRegion> regions;
  for (const char* name :
       {"d2h", "decode.loop", "decode.lm", "decode.project", "mine", "decode", "encoder"})
    regions[name] = {};
  const std::vector<std::string> wanted = {
      "encoder", "decode", "decode.project", "decode.loop", "decode.lm", "d2h", "mine"};
  EXPECT_EQ(ordered_regions(regions), wanted);
}

TEST(RangeLog, NestedRangesOnACount) {
  int64_t time = 0;
  RangeLog log([&] { return ++time; }, at::kCPU, true);
  for (int i = 0; i < 2; ++i) {
    const ScopedRange region(RangeName::decode);
    const ScopedRange phase(RangeName::decode_loop);
    const ScopedRange step(RangeName::decode_step, 0);
    const ScopedRange wait(RangeName::wait);
  }
  EXPECT_EQ(range_names(log.ranges()), (std::vector<std::string>{"decode", "decode.loop"}));
  const std::vector<Span> spans = spans_named(log.ranges(), "decode");
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].begin, 1);
  EXPECT_EQ(spans[0].end, 8);
  EXPECT_EQ(spans_named(log.ranges(), "decode.loop")[1].begin, 10);
  EXPECT_EQ(spans_named(log.ranges(), "wait").size(), 2U);
  ASSERT_EQ(log.segments().size(), 2U);
  EXPECT_EQ(log.segments()[1].name, "decode.step");
  EXPECT_EQ(log.segments()[1].time.begin, 11);
  EXPECT_EQ(log.segments()[1].time.end, 14);
}

TEST(RangeLog, SegmentsAreOfRegions) {
  int64_t time = 0;
  RangeLog log([&] { return ++time; }, at::kCPU, true);
  { const ScopedRange outside(RangeName::encoder_norm); }
  {
    const ScopedRange region(RangeName::encoder);
    const ScopedRange inside(RangeName::encoder_attention);
  }
  { const ScopedRange outside(RangeName::encoder_norm); }
  ASSERT_EQ(log.segments().size(), 1U);
  EXPECT_EQ(log.segments()[0].name, "encoder.attention");
}

TEST(RangeLog, SegmentsAreForProfilesThatCollect) {
  const RangeLog log([] { return int64_t{0}; }, at::kCPU, false);
  const ScopedRange region(RangeName::decode);
  { const ScopedRange step(RangeName::decode_step, 0); }
  EXPECT_TRUE(log.segments().empty());
}

TEST(RangeLog, NobodyListensAfterItsEnd) {
  {
    const RangeLog log([] { return int64_t{0}; }, at::kCPU, false);
  }
  EXPECT_EQ(range_listener.load(), nullptr);
  const ScopedRange range(RangeName::decode);
}

}  // namespace
}  // namespace rtfx
