// Tests protocol.mode "throughput" on a GPU, with its streams and events, and with graphs that are
// recorded while other threads work.
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <vector>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "harness/run/run.h"
#include "models/load_checkpoint.h"
#include "speech/pipeline/overlapped_pipeline.h"
#include "speech/pipeline/recorded_encoder.h"
#include "tests/support/records.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;

class OverlappedGpu : public test::TempFolder {
 protected:
  void SetUp() override {
    test::TempFolder::SetUp();
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  std::vector<json> rounds(const std::string& folder, const json& protocol,
                           const json& more = json::object()) const {
    const auto here = std::filesystem::current_path().string();
    const auto decoder = [](const char* name, const char* loop) {
      return json{{"id", std::string(name) + loop}, {"name", name}, {"options", {{"loop", loop}}}};
    };
    json config = {
        {"question", "what overlaps?"},
        {"models", {here + "/models/quickstart/quickstart-rnnt.nemo"}},
        {"datasets", {{{"id", "d"}, {"manifest", here + "/datasets/quickstart/manifest.jsonl"}}}},
        {"decoders",
         {decoder("label_looping", "host"), decoder("label_looping", "graph"),
          decoder("fused_looping", "persistent"), decoder("fused_looping", "graph"), "ctc_greedy"}},
        {"batch_sizes", {3}},
        {"device", "cuda"},
        {"sort", "shuffle"},
        {"output", path(folder).string()},
        {"protocol", protocol}};
    config.update(more);
    EXPECT_EQ(rtfx::run(parse_config({config, path("c.json")}), Journal::Mode::fresh), kOk);
    std::vector<json> found;
    for (const json& record : test::read_objects(path(folder) / "journal.jsonl"))
      if (record["kind"] == "run") found.push_back(record);
    return found;
  }
};

TEST_F(OverlappedGpu, ResultsAreThoseOfTheIsolatedMode) {
  std::map<std::string, std::string> expected;
  for (const json& r : rounds("isolated", {{"warmup_rounds", 0}, {"measured_rounds", 1}}))
    expected[r["decoder"]["id"]] = r["hypotheses_sha256"];
  ASSERT_EQ(expected.size(), 5U);
  for (const int in_flight : {1, 2, 6}) {
    // Without warm-up, the first pass records every batch size while other batches are in flight.
    const auto found =
        rounds(std::to_string(in_flight), {{"mode", "throughput"},
                                           {"throughput", {{"in_flight", in_flight}}},
                                           {"steady_seconds", 0},
                                           {"warmup_rounds", 0},
                                           {"measured_rounds", 3}});
    EXPECT_EQ(found.size(), 15U);
    for (const json& r : found) {
      EXPECT_EQ(r["hypotheses_sha256"], expected[r["decoder"]["id"]]) << r["case"] << in_flight;
      EXPECT_EQ(r["isolated"]["grade"], "bitwise") << r["case"] << in_flight;
      EXPECT_GT(r["metrics"]["busy.encoder"], 0);
      EXPECT_GT(r["regions"]["decode"]["device_seconds"], 0);
      EXPECT_LE(r["regions"]["encoder"]["device_seconds"], r["wall_seconds"]);
    }
  }
}

TEST_F(OverlappedGpu, TheLargestBatchIsFoundByTryingAndTheEncoderMayHaveAnotherType) {
  const auto found =
      rounds("largest", {{"mode", "throughput"}, {"measured_rounds", 1}, {"steady_seconds", 0}},
             {{"batch_sizes", {"max"}}, {"dtypes", {"bf16+fp32"}}});
  ASSERT_EQ(found.size(), 5U);
  for (const json& r : found) {
    EXPECT_EQ(r["batch"]["size"], 24);  // the whole set
    EXPECT_EQ(r["dtype"], "bf16+fp32");
  }
}

TEST_F(OverlappedGpu, FailedBatchesDoNotDisturbRecordings) {
  const auto model = AcousticModel::build(load_checkpoint("models/quickstart/quickstart-rnnt.nemo"),
                                          at::Device(at::kCUDA, 0), at::kFloat);
  const auto decoder = make_decoder("label_looping", {{"loop", "graph"}}, "");
  RecordedEncoder encoder(model, /*graphs=*/true, /*at_once=*/true);
  OverlappedPipeline pipeline(model, encoder, 4);
  pipeline.prepare(*decoder, {1, 0});
  size_t failed = 0, good = 0;
  pipeline.run(
      *decoder,
      [](size_t number, BatchInFlight& batch) {
        if (number == 60) return false;
        if (number % 2 == 1) throw std::runtime_error("unreadable");
        batch.audio = {std::vector<float>(8000 * (number + 2))};  // encoder and search record it
        batch.clips.assign(1, ClipOfBatch(batch.audio.front(), 0));
        return true;
      },
      [&](size_t number, const BatchInFlight& batch) {
        EXPECT_EQ(batch.failure != nullptr, number % 2 == 1) << number;
        ++(batch.failure ? failed : good);
      });
  EXPECT_EQ(failed, 30U);
  EXPECT_EQ(good, 30U);
}

}  // namespace
}  // namespace rtfx
