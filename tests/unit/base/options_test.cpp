// Tests option tables: reading, resolved values, and errors that name the place and the nearest
// name.
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
const OptionTable<Inner> kInner{{option("size", &Inner::size, "how large", 1, 9)}};

struct Options {
  std::string loop = "host";
  bool encoder = true;
  int64_t count = 1;
  std::optional<Inner> inner;
};

const OptionTable<Options> kOptions{{
    option("loop", &Options::loop, "who drives the loops", {"host", "replay", "graph"}),
    option("encoder", &Options::encoder, "once"),
    option("count", &Options::count, "how many", 0, 9),
    option("inner", &Options::inner, "an object", kInner),
}};

Options fill(const char* text) { return kOptions.fill(json::parse(text), "c.json#/options"); }

std::string complaint(const char* text) {
  return user_error([&] { fill(text); });
}

TEST(OptionTable, SetsWhatIsGivenAndKeepsDefaults) {
  const Options options = fill(R"({"loop": "replay", "count": 2, "inner": {"size": 3}})");
  EXPECT_EQ(options.loop, "replay");
  EXPECT_EQ(options.count, 2);
  EXPECT_TRUE(options.encoder);
  EXPECT_EQ(options.inner->size, 3);
  EXPECT_EQ(
      kOptions.resolved(options),
      json::parse(R"({"loop": "replay", "encoder": true, "count": 2, "inner": {"size": 3}})"));
}

TEST(OptionTable, NamesTheNearestOptionAndValue) {
  EXPECT_HAS(complaint(R"({"lop": 1})"), "unknown option 'lop'; did you mean 'loop'?");
  EXPECT_HAS(complaint(R"({"loop": "grap"})"),
             "c.json#/options/loop: unknown value 'grap'; did you mean 'graph'?");
  EXPECT_HAS(complaint(R"({"inner": {"sise": 3}})"), "c.json#/options/inner");
}

TEST(OptionTable, ReportsAllErrorsAtOnce) {
  const std::string message = complaint(R"({"count": 10, "encoder": 1, "inner": {"size": 0}})");
  for (const char* place : {"/options/count", "/options/encoder", "/options/inner/size"})
    EXPECT_HAS(message, place);
}

TEST(OptionTable, ListsMembersWithADot) {
  std::vector<std::string> names;
  for (const OptionInfo& option : kOptions.info()) names.push_back(option.name);
  EXPECT_EQ(names, (std::vector<std::string>{"loop", "encoder", "count", "inner", "inner.size"}));
}

}  // namespace
}  // namespace rtfx
