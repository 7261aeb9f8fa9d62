// Tests frame skipping by CTC on a GPU. Each form of a search with it equals the plain search of
// the kept frames. Recorded graphs take batches with any share of dropped frames.
#include <ATen/cuda/CUDAContextLight.h>
#include <gtest/gtest.h>

#include "tests/support/piece_cases.h"
#include "tests/support/skipping_cases.h"

namespace rtfx {
namespace {

using namespace test;

class BlankSkippingGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
  const at::Device device_{at::kCUDA, 0};
};

std::vector<Arm> arms_on_gpu() {
  std::vector<Arm> arms;
  for (const char* loop : {"host", "replay", "graph"})
    for (const char* name : {"frame_looping", "label_looping"})
      arms.push_back({name, {{"loop", loop}, {"max_symbols", 4}}});
  for (const char* loop : {"persistent", "graph", "host"})
    arms.push_back({"fused_looping", {{"loop", loop}, {"max_symbols", 4}}});
  for (const char* name : {"alsd_pp", "aes_pp", "modified_beam_search", "ctc_beam"}) {
    for (const char* kernels : {"operators", "fused"})
      arms.push_back(
          {name, {{"beam_size", 3}, {"nbest", 3}, {"kernels", kernels}, {"loop", "graph"}}});
  }
  return arms;
}

TEST_F(BlankSkippingGpu, EqualsASearchOfTheKeptFrames) {
  at::manual_seed(3);
  std::mt19937 random(71);
  int64_t skipped = 0, tokens = 0;
  const auto model = random_model(rnnt_config(), 8, device_);
  for (int n = 0; n < 2; ++n) {
    const EncodedBatch batch = random_batch(random, 6, 30, model->config.encoder.width, device_);
    for (const Arm& arm : arms_on_gpu())
      for (const double threshold : {0.02, 0.2})
        expect_skips(arm, model, batch, threshold, skipped, tokens);
  }
  EXPECT_GT(skipped, 500);
  EXPECT_GT(tokens, 500);
}

/// The test is small enough for compute-sanitizer, and has no recorded graphs, at which racecheck
/// crashes.
TEST_F(BlankSkippingGpu, OneSmallBatch) {
  at::manual_seed(6);
  std::mt19937 random(74);
  int64_t skipped = 0, tokens = 0;
  const auto model = random_model(rnnt_config(), 8, device_);
  const EncodedBatch batch = random_batch(random, 3, 12, model->config.encoder.width, device_);
  for (const char* loop : {"persistent", "host"})
    expect_skips({"fused_looping", {{"loop", loop}, {"max_symbols", 2}}}, model, batch, 0.05,
                 skipped, tokens);
  for (const char* name : {"alsd_pp", "aes_pp", "modified_beam_search", "ctc_beam"})
    expect_skips({name, {{"beam_size", 2}, {"kernels", "fused"}, {"loop", "host"}}}, model, batch,
                 0.05, skipped, tokens);
  EXPECT_GT(skipped, 0);
  EXPECT_GT(tokens, 0);
}

TEST_F(BlankSkippingGpu, GraphsTakeBatchesOfAnyKeptLengths) {
  at::manual_seed(4);
  std::mt19937 random(72);
  const auto model = random_model(rnnt_config(), 8, device_);
  for (const Arm& arm : arms_on_gpu()) {
    nlohmann::json options = arm.options;
    options["skip_blank"] = 0.05;
    const auto decoder = make_decoder(arm.name, options, "");
    decoder->prepare(model, {});
    for (int n = 0; n < 3; ++n) {
      const EncodedBatch batch = random_batch(random, 4, 24, model->config.encoder.width, device_);
      const auto fresh = make_decoder(arm.name, options, "");
      fresh->prepare(model, {});
      EXPECT_EQ(decoder->decode(batch).to_host(), fresh->decode(batch).to_host())
          << arm.name << options << " batch " << n;
    }
  }
}

TEST_F(BlankSkippingGpu, EqualsTheCpu) {
  at::manual_seed(5);
  std::mt19937 random(73);
  const auto on_cpu = random_model(rnnt_config(), 8),
             on_gpu = random_model(rnnt_config(), 8, device_);
  const EncodedBatch batch = random_batch(random, 6, 30, on_cpu->config.encoder.width);
  const EncodedBatch there{batch.frames.to(device_), batch.lengths.to(device_), batch.lengths_host};
  const nlohmann::json options = {{"skip_blank", 0.05}, {"max_symbols", 4}};
  const auto expected = make_decoder("label_looping", options, "");
  expected->prepare(on_cpu, {});
  const auto reference = expected->decode(batch).to_host();
  for (const char* name : {"label_looping", "fused_looping"}) {
    const auto decoder = make_decoder(name, options, "");
    decoder->prepare(on_gpu, {});
    const auto found = decoder->decode(there).to_host();
    EXPECT_EQ(decoder->counters().at("frames_skipped"), expected->counters().at("frames_skipped"));
    for (size_t b = 0; b < found.size(); ++b) {
      EXPECT_EQ(found[b].tokens, reference[b].tokens) << name << " row " << b;
      EXPECT_EQ(found[b].frames, reference[b].frames) << name << " row " << b;
    }
  }
}

TEST_F(BlankSkippingGpu, PiecesOfStreamsEqualTheWhole) {
  const auto model = random_model(rnnt_config(), 8, device_, at::kBFloat16);
  for (const char* name : {"fused_looping", "label_looping", "ctc_beam"})
    for (uint32_t seed = 0; seed < 2 && !HasFailure(); ++seed)
      random_pieces({name, {{"skip_blank", 0.05}}, model}, seed);
}

}  // namespace
}  // namespace rtfx
