// Tests the greedy decoders on a GPU on the same tables as on the CPU, in float32 and bfloat16.
// Results are equal bit for bit (small integers are exact in both). There is no undeclared wait,
// and memory does not grow.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include "algorithms/decoders/greedy/ctc_greedy/ctc_greedy.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/biasing/compiled_bias.h"
#include "tests/support/greedy_cases.h"
#include "tests/support/lstm_cases.h"

namespace rtfx {
namespace {

using namespace test;

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
  const at::Device device_{at::kCUDA, 0};
};

/// Returns the greedy decoders as CUDA graphs.
std::vector<Arm> graph_arms() {
  std::vector<Arm> arms;
  for (const char* loop : {"replay", "graph"}) {
    arms.push_back({"frame_looping", {{"loop", loop}}});
    arms.push_back({"label_looping", {{"loop", loop}}});
    arms.push_back({"label_looping", {{"loop", loop}, {"window", 4}}});
  }
  return arms;
}

TEST_F(Gpu, EveryGraphFormEqualsThePlainSearch) {
  std::mt19937 random(19);
  for (int trial = 0; trial < 16; ++trial) {
    const Case c = random_case(random, kTransducerKinds[trial % 3], trial % 4 < 2);
    const int64_t max_symbols = std::vector<int64_t>{1, 2, 3, 10}[static_cast<size_t>(trial / 4)];
    std::vector<Hypothesis> expected;
    for (const Table& row : c.rows) expected.push_back(oracle(c.model, row, max_symbols));
    for (Arm arm : graph_arms()) {
      arm.options["max_symbols"] = max_symbols;
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        EXPECT_EQ(run(arm.name, arm.options, c, device_, dtype), expected)
            << arm.name << arm.options << " trial " << trial << " " << dtype;
      }
    }
    if (HasFailure()) return;
  }
}

TEST_F(Gpu, GraphsServeBatchesOfEveryShape) {
  const auto model = random_model(small_config(), 4, device_);
  const auto reference = make_decoder("frame_looping", nlohmann::json::object(), "");
  reference->prepare(model, {});
  for (const Arm& arm : graph_arms()) {
    std::mt19937 random(6);
    const auto decoder = make_decoder(arm.name, arm.options, "");
    decoder->prepare(model, {4, 20});
    int64_t captures = 0;
    // Batches are smaller and larger than prepared for, then small again. Rows of earlier batches
    // must not show.
    for (const auto& [rows, frames] :
         {std::pair{4, 20}, {2, 9}, {9, 70}, {1, 1}, {3, 0}, {9, 130}}) {
      EncodedBatch batch{at::randn({rows, frames, 16}, at::TensorOptions(device_)), {}, {}};
      for (int b = 0; b < rows; ++b)
        batch.lengths_host.push_back(
            static_cast<int64_t>(random() % static_cast<unsigned>(frames + 1)));
      batch.lengths = at::tensor(batch.lengths_host, at::kLong).to(device_);
      const auto expected = reference->decode(batch).to_host();
      const auto first = decoder->decode(batch);
      captures += decoder->counters().at("graph_captures");
      decoder->decode(batch);  // another search must not overwrite the first results
      EXPECT_EQ(decoder->counters().at("graph_captures"), 0);
      const auto found = first.to_host();
      for (size_t b = 0; b < expected.size(); ++b) {
        EXPECT_EQ(found[b].tokens, expected[b].tokens) << arm.name << arm.options << rows << frames;
        EXPECT_EQ(found[b].frames, expected[b].frames);
        EXPECT_EQ(found[b].durations, expected[b].durations);
      }
    }
    EXPECT_EQ(captures, 2) << arm.name << arm.options;
  }
}

/// The memory of the masks exists since the load that failed, so the next load does not move it.
TEST_F(Gpu, GraphsAreRecordedAnewAfterABiasThatCannotBeLoaded) {
  const auto model = random_model(small_config(), 4, device_);
  const int64_t vocabulary = model->config.vocabulary;
  auto mask = std::make_shared<CompiledBias>(), too_long = std::make_shared<CompiledBias>();
  mask->forbidden = at::arange(vocabulary) % 2 == 0;
  too_long->forbidden = at::arange(vocabulary + 1) % 2 == 0;
  for (const Arm& arm : graph_arms()) {
    std::mt19937 random(6);
    const auto decoder = make_decoder(arm.name, arm.options, "");
    decoder->prepare(model, {4, 30});
    EncodedBatch batch = random_batch(random, 4, 30, model->config.encoder.width, device_);
    decoder->decode(batch);
    batch.biases.assign(4, too_long);
    EXPECT_THROW(decoder->decode(batch), c10::Error);
    batch.biases.assign(4, mask);
    size_t tokens = 0;
    for (const Hypothesis& h : decoder->decode(batch).to_host()) {
      for (const int32_t token : h.tokens) EXPECT_EQ(token % 2, 1) << arm.name << arm.options;
      tokens += h.tokens.size();
    }
    EXPECT_GT(tokens, 0U) << arm.name;
  }
}

TEST_F(Gpu, EveryExactDecoderEqualsThePlainSearch) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 80; ++trial) {
    const Case c = random_case(random, kTransducerKinds[trial % 3], trial % 4 < 2);
    const int64_t max_symbols =
        std::vector<int64_t>{1, 2, 3, 5, 10}[static_cast<size_t>(trial % 5)];
    std::vector<Hypothesis> expected;
    for (const Table& row : c.rows) expected.push_back(oracle(c.model, row, max_symbols));
    for (Arm arm : exact_arms()) {
      arm.options["max_symbols"] = max_symbols;
      for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
        EXPECT_EQ(run(arm.name, arm.options, c, device_, dtype), expected)
            << arm.name << arm.options << " trial " << trial << " " << dtype;
      }
    }
    if (HasFailure()) return;
  }
}

TEST_F(Gpu, TheTorchScriptProgramEqualsFrameLooping) {
  expect_equal_to_frame_looping("label_looping", {{"loop", "script"}}, device_);
}

TEST_F(Gpu, CtcCollapseEqualsTheCpu) {
  at::manual_seed(3);
  const at::Tensor logits = at::randint(0, 4, {7, 50, 12}).to(at::kFloat);
  const at::Tensor lengths = at::tensor({50, 0, 1, 17, 49, 33, 2}, at::kLong);
  auto expected = CtcGreedy::collapse(logits, lengths).to_host();
  auto actual = CtcGreedy::collapse(logits.to(device_), lengths.to(device_)).to_host();
  for (size_t b = 0; b < expected.size(); ++b) {
    EXPECT_NEAR(actual[b].score, expected[b].score, 1e-3);
    actual[b].score = expected[b].score;
    EXPECT_EQ(actual[b], expected[b]);
  }
}

TEST_F(Gpu, NoDecoderWaitsUndeclared) {
  const auto model = random_model(small_config(), 4, device_);
  EncodedBatch batch{at::randn({4, 30, 16}, at::TensorOptions(device_)),
                     at::tensor({30, 0, 7, 29}, at::kLong).to(device_),
                     {30, 0, 7, 29}};
  std::vector<Arm> arms = graph_arms();
  // Decoders that need a file have tests of their own.
  const auto is_file = [](const OptionInfo& o) {
    return o.is_file && o.name.find('.') == o.name.npos;
  };
  for (const DecoderEntry* entry : decoder_entries())
    if (std::ranges::none_of(entry->options, is_file)) arms.push_back({entry->name, {}});
  for (const char* form : {"graph", "host"}) arms.push_back({"fused_looping", {{"loop", form}}});
  for (const char* form : {"host", "replay"}) arms.push_back({"step_replay", {{"loop", form}}});
  arms.push_back({"label_looping", {{"loop", "script"}}});
  arms.push_back({"frame_looping", {{"host_reads", "rows"}}});
  for (const Arm& arm : arms) {
    const auto decoder = make_decoder(arm.name, arm.options, "");
    decoder->prepare(model, {4, 30});
    decoder->decode(batch);
    EXPECT_NO_THROW(forbid_undeclared_syncs([&] { decoder->decode(batch); }))
        << arm.name << arm.options;
  }
  EXPECT_THROW(forbid_undeclared_syncs([&] { batch.lengths.max().item<int64_t>(); }),
               std::exception);
}

TEST_F(Gpu, MemoryDoesNotGrowOverRandomBatches) {
  const auto model = random_model(small_config(), 4, device_);
  std::mt19937 random(5);
  const auto decoder = make_decoder("label_looping", {{"window", 4}, {"loop", "graph"}}, "");
  decoder->prepare(model, {8, 40});
  const auto allocated = [&] {
    c10::cuda::device_synchronize();
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
  };
  int64_t before = 0;
  for (int i = 0; i < 1020; ++i) {
    const int64_t rows = 1 + static_cast<int64_t>(random() % 8),
                  frames = 1 + static_cast<int64_t>(random() % 40);
    EncodedBatch batch{at::randn({rows, frames, 16}, at::TensorOptions(device_)),
                       at::full({rows}, frames, at::TensorOptions(at::kLong).device(device_)),
                       std::vector<int64_t>(static_cast<size_t>(rows), frames)};
    decoder->decode(batch).to_host();
    batch = {};
    if (i == 20) before = allocated();
  }
  EXPECT_EQ(allocated(), before);
}

TEST_F(Gpu, EncoderEqualsTheCpu) {
  const ModelConfig config = small_config();
  const Features features{at::randn({3, 80, 160}), at::tensor({160, 77, 0}, at::kLong)};
  const Encoded cpu = (*random_model(config, 2)->encoder)(features);
  const Encoded gpu = (*random_model(config, 2, device_)->encoder)(
      {features.values.to(device_), features.lengths.to(device_)});
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t n = cpu.lengths[b].item<int64_t>();
    if (n == 0) continue;
    EXPECT_LT((cpu.frames[b].narrow(0, 0, n) - gpu.frames[b].narrow(0, 0, n).cpu())
                  .abs()
                  .max()
                  .item<double>(),
              1e-4);
  }
}

}  // namespace
}  // namespace rtfx
