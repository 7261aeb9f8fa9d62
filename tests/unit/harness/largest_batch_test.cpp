#include "harness/run/largest_batch.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "harness/run/run.h"
#include "tests/support/records.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

TEST(LargestBatch, IsWithinAThirtySecondAndNothingLargerIsTriedTwice) {
  for (const int64_t most : {1, 2, 7, 1000}) {
    for (int64_t limit = 0; limit <= most; ++limit) {
      int64_t tries = 0, failed = most + 1;
      const int64_t found = largest_that_fits(most, [&](int64_t size) {
        EXPECT_GE(size, 1);
        EXPECT_LT(size, failed);
        ++tries;
        if (size > limit) failed = size;
        return size <= limit;
      });
      EXPECT_LE(found, limit);
      EXPECT_LE(limit - found, limit / 32) << limit << " of " << most;
      EXPECT_LE(tries, 17);
    }
  }
  EXPECT_EQ(largest_that_fits(1000, [](int64_t) { return true; }), 1000);
  EXPECT_EQ(largest_that_fits(31, [](int64_t size) { return size <= 29; }), 29);
}

class LargestBatchRun : public test::TempFolder {};

TEST_F(LargestBatchRun, OnACpuTheWholeSetFitsAndTheJournalHasTheNumber) {
  using nlohmann::json;
  const auto here = std::filesystem::current_path().string();
  json config = {
      {"question", "how many fit?"},
      {"models", {here + "/models/quickstart/quickstart-rnnt.nemo"}},
      {"datasets",
       {{{"id", "d"}, {"manifest", here + "/datasets/quickstart/manifest.jsonl"}, {"limit", 3}}}},
      {"decoders", {"label_looping"}},
      {"batch_sizes", {1, "max"}},
      {"device", "cpu"},
      {"threads", 1},
      {"output", path("run").string()},
      {"protocol", {{"warmup_rounds", 0}, {"measured_rounds", 1}}}};
  const auto run = [&](Journal::Mode mode) {
    return rtfx::run(parse_config({config, path("c.json")}), mode);
  };
  ASSERT_EQ(run(Journal::Mode::fresh), kOk);
  config["protocol"]["measured_rounds"] = 2;
  ASSERT_EQ(run(Journal::Mode::resume), kOk);
  int rounds = 0;
  for (const json& r : test::read_objects(path("run") / "journal.jsonl")) {
    if (r["kind"] != "run") continue;
    const bool largest = r["case"] == "quickstart-rnnt/d/label_looping/bmax/fp32";
    EXPECT_EQ(r["batch"]["size"], largest ? 3 : 1);
    EXPECT_EQ(r["batch"].value("largest", false), largest);
    EXPECT_EQ(r["batches"]["audio_seconds"].size(), largest ? 1 : 3);
    ++rounds;
  }
  EXPECT_EQ(rounds, 4);
}

}  // namespace
}  // namespace rtfx
