// Options and the names that they had: each works under its former name, once with a notice.
#include "base/options.h"

#include <gtest/gtest.h>

#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;
using test::user_error;

struct Inner {
  int64_t size = 1;
};
const OptionTable<Inner> kInner{
    {option("size", &Inner::size, "how large", 1, 9).formerly("extent")}};

struct Options {
  std::string loop = "host";
  bool encoder = true, prediction = true;
  int64_t count = 1;
  std::optional<Inner> inner;
};

const OptionTable<Options> kOptions{{
    option("loop", &Options::loop, "who drives the loops", {"host", "replay", "graph"})
        .formerly("graphs", {{"none", "host"}, {"conditional", "graph"}})
        .formerly("loop", {{"none", "host"}}),
    option("encoder", &Options::encoder, "once").formerly("precompute"),
    option("prediction", &Options::prediction, "once").formerly("precompute"),
    option("count", &Options::count, "how many", 0, 9),
    option("inner", &Options::inner, "an object", kInner),
}};

/// The options and what was printed on standard error meanwhile.
std::pair<Options, std::string> fill(const char* text) {
  testing::internal::CaptureStderr();
  const Options options = kOptions.fill(json::parse(text), "c.json#/options");
  return {options, testing::internal::GetCapturedStderr()};
}

std::string complaint(const char* text) {
  return user_error([&] { kOptions.fill(json::parse(text), "c.json#/options"); });
}

TEST(RenamedOption, AFormerNameSetsTheOptionAndIsNoticedOnce) {
  const auto [options, notice] = fill(R"({"graphs": "replay", "count": 2})");
  EXPECT_EQ(options.loop, "replay");
  EXPECT_EQ(options.count, 2);
  EXPECT_EQ(notice, "rtfx: c.json#/options: option 'graphs' is now called 'loop'\n");
  EXPECT_EQ(fill(R"({"graphs": "replay"})").second, "");
}

TEST(RenamedOption, AFormerValueBecomesThePresentOne) {
  const auto [options, notice] = fill(R"({"graphs": "conditional"})");
  EXPECT_EQ(options.loop, "graph");
  EXPECT_HAS(notice, "value 'conditional' of option 'loop' is now called 'graph'\n");
}

TEST(RenamedOption, AValueMayHaveANewNameWhereTheOptionHasNone) {
  EXPECT_EQ(fill(R"({"loop": "none"})").first.loop, "host");
  EXPECT_HAS(complaint(R"({"loop": "conditional"})"),
             "c.json#/options/loop: unknown value 'conditional'");
}

TEST(RenamedOption, OneFormerNameMaySetTwoOptions) {
  const auto [options, notice] = fill(R"({"precompute": false})");
  EXPECT_FALSE(options.encoder);
  EXPECT_FALSE(options.prediction);
  EXPECT_EQ(
      notice,
      "rtfx: c.json#/options: option 'precompute' is now called 'encoder' and 'prediction'\n");
}

TEST(RenamedOption, BothNamesAreAnError) {
  for (const char* text :
       {R"({"graphs": "none", "loop": "host"})", R"({"precompute": true, "prediction": true})"}) {
    const std::string message = complaint(text);
    EXPECT_HAS(message, "is given too; leave one of them out");
  }
  EXPECT_HAS(complaint(R"({"graphs": "none", "loop": "host"})"),
             "c.json#/options/graphs: option 'loop', as this is now called");
}

TEST(RenamedOption, ReachesIntoObjects) {
  EXPECT_EQ(fill(R"({"inner": {"extent": 3}})").first.inner->size, 3);
  const json present = with_present_names(
      json::parse(R"({"inner": {"extent": [3, 4]}, "graphs": ["none", "replay"]})"),
      "c.json#/options", kOptions.info());
  EXPECT_EQ(present, json::parse(R"({"inner": {"size": [3, 4]}, "loop": ["host", "replay"]})"));
}

TEST(RenamedOption, IsNotListed) {
  for (const OptionInfo& option : kOptions.info()) EXPECT_NE(option.name, "graphs");
  const std::string message = complaint(R"({"grap": 1})");
  EXPECT_HAS(message, "unknown option 'grap'");
  EXPECT_EQ(message.find("graphs"), std::string::npos) << message;
}

TEST(RenamedOption, AWrongValueIsToldUnderThePresentName) {
  EXPECT_HAS(complaint(R"({"graphs": "grap"})"),
             "c.json#/options/loop: unknown value 'grap'; did you mean 'graph'?");
}

}  // namespace
}  // namespace rtfx
