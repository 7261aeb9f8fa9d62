// Tests the fused kernels in all their forms. They equal the plain search on tables (exact
// arithmetic), and frame-looping on random LSTM models. Batches of any shape run one after the
// other, in constant memory.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/greedy_cases.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

using namespace test;

class FusedLoopingGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
  nlohmann::json options(nlohmann::json more = nlohmann::json::object()) const {
    more["loop"] = GetParam();
    return more;
  }

  /// Expects the tokens, frames, durations and scores of frame_looping on a random model.
  void expect_frame_looping(const ModelConfig& config, uint64_t seed) const {
    std::mt19937 random(3);
    const auto model = random_model(config, seed, device_);
    const auto reference = make_decoder("frame_looping", {{"max_symbols", 4}}, "");
    reference->prepare(model, {});
    const auto decoder = make_decoder("fused_looping", options({{"max_symbols", 4}}), "");
    decoder->prepare(model, {});
    for (const int64_t rows : {1, 5, 33, 70}) {
      const EncodedBatch batch =
          random_batch(random, rows, 25, config.encoder.width, device_, at::kFloat);
      const auto expected = reference->decode(batch).to_host();
      const auto found = decoder->decode(batch).to_host();
      for (size_t b = 0; b < expected.size(); ++b) {
        EXPECT_EQ(found[b].tokens, expected[b].tokens) << seed << " " << rows << " " << b;
        EXPECT_EQ(found[b].frames, expected[b].frames);
        EXPECT_EQ(found[b].durations, expected[b].durations);
        EXPECT_NEAR(found[b].score, expected[b].score, 1e-3 * (1 + std::abs(expected[b].score)));
        EXPECT_FALSE(found[b].nan);
      }
      if (HasFailure()) return;
    }
  }

  const at::Device device_{at::kCUDA, 0};
};

TEST_P(FusedLoopingGpu, FramesMayBeginAnywhere) {
  std::mt19937 random(5);
  ModelConfig config = small_config();
  config.encoder.width = 64;  // frames of a multiple of 16 bytes, which are read where they are
  const auto model = random_model(config, 1, device_);
  const auto decoder = make_decoder("fused_looping", options(), "");
  decoder->prepare(model, {});
  EncodedBatch batch = random_batch(random, 3, 25, config.encoder.width, device_, at::kFloat);
  const auto expected = decoder->decode(batch).to_host();
  const at::Tensor larger = at::empty({batch.frames.numel() + 1}, batch.frames.options());
  const at::Tensor moved = larger.narrow(0, 1, batch.frames.numel()).view(batch.frames.sizes());
  moved.copy_(batch.frames);
  batch.frames = moved;
  EXPECT_EQ(decoder->decode(batch).to_host(), expected);
}

TEST_P(FusedLoopingGpu, EqualsThePlainSearchOnTables) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    const Case c = random_case(random, kTransducerKinds[trial % 3], trial % 4 < 2);
    const int64_t max_symbols =
        std::vector<int64_t>{1, 2, 3, 5, 10}[static_cast<size_t>(trial % 5)];
    std::vector<Hypothesis> expected;
    for (const Table& row : c.rows) expected.push_back(oracle(c.model, row, max_symbols));
    for (const int window : {1, 2, 8}) {
      for (const int frames : {1, 7, 160}) {
        const auto given = options(
            {{"window", window}, {"frames_per_step", frames}, {"max_symbols", max_symbols}});
        for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
          EXPECT_EQ(run("fused_looping", given, c, device_, dtype), expected)
              << given << " trial " << trial << " " << dtype;
        }
      }
    }
    if (HasFailure()) return;
  }
}

/// Tests so many rows and outputs that each warp takes frames of its own. In most frames, many
/// tokens are equally good.
TEST_P(FusedLoopingGpu, EqualsThePlainSearchOnALargeVocabulary) {
  std::mt19937 random(12);
  for (const TransducerKind kind : kTransducerKinds) {
    const Case c = wide_case(random, kind, false, 1501, 100);
    std::vector<Hypothesis> expected;
    for (const Table& row : c.rows) expected.push_back(oracle(c.model, row, 2));
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      EXPECT_EQ(run("fused_looping", options({{"max_symbols", 2}}), c, device_, dtype), expected)
          << dtype;
    }
  }
}

/// One row and many rows are evaluated by different code with the same rounding. The vocabularies
/// fill neither the last tile nor the last group of tiles. The largest one exceeds what the blocks
/// of an H100 evaluate at once.
TEST_P(FusedLoopingGpu, ARowDoesNotDependOnItsBatch) {
  at::manual_seed(6);
  std::mt19937 random(7);
  for (const int64_t vocabulary : {300, 5003, 8193, 11000}) {
    ModelConfig config = small_config();
    config.prediction.width = 64;
    config.joint_width = vocabulary == 5003 ? 650 : 640;
    config.vocabulary = vocabulary;
    if (vocabulary == 8193) config.durations = {};
    if (vocabulary == 11000) config.joint_width = 72;
    for (const auto dtype : {at::kBFloat16, at::kHalf, at::kFloat}) {
      const auto model = random_model(config, 8, device_, dtype);
      const auto decoder = make_decoder("fused_looping", options({{"max_symbols", 3}}), "");
      decoder->prepare(model, {});
      const EncodedBatch batch = random_batch(random, 70, 15, config.encoder.width, device_, dtype);
      const auto all = decoder->decode(batch).to_host();
      size_t tokens = 0;
      for (int64_t b = 0; b < 70; b += 3) {
        const auto row = static_cast<size_t>(b);
        const EncodedBatch one{batch.frames.narrow(0, b, 1).contiguous(),
                               batch.lengths.narrow(0, b, 1).contiguous(),
                               {batch.lengths_host[row]}};
        EXPECT_EQ(decoder->decode(one).to_host()[0], all[row]) << vocabulary << dtype << " " << b;
        tokens += all[row].tokens.size();
      }
      EXPECT_GT(tokens, 20);
    }
  }
}

TEST_P(FusedLoopingGpu, EqualsFrameLoopingOnLstmModels) {
  at::manual_seed(4);
  for (int trial = 0; trial < 12; ++trial) {
    ModelConfig config = small_config();
    config.prediction.layers = 1 + trial % 2;
    config.prediction.width = trial % 3 == 0 ? 12 : 64;
    config.joint_width = trial % 3 == 1 ? 10 : 96;
    config.vocabulary = trial % 4 == 0 ? 20 : 150;
    if (trial % 2 == 0) config.durations = {};
    if (trial % 4 == 2) config.blank_durations = {8, 4, 2, 1};
    config.joint_activation = trial % 5 == 4 ? "tanh" : "relu";
    expect_frame_looping(config, static_cast<uint64_t>(trial));
    if (HasFailure()) return;
  }
}

TEST_P(FusedLoopingGpu, EqualsFrameLoopingOnStatelessModels) {
  at::manual_seed(4);
  for (const bool layer_norm : {false, true}) {
    for (const int64_t context : {1, 2}) {
      for (const int64_t width : {12, 100}) {
        ModelConfig config = small_config();
        config.prediction.kind = PredictionConfig::Kind::stateless;
        config.prediction.layers = 0;
        config.prediction.context_size = context;
        config.prediction.layer_norm = layer_norm;
        config.prediction.width = width;
        config.joint_width = 40;
        if (width == 12) config.durations = {};
        expect_frame_looping(config, static_cast<uint64_t>(width));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(FusedLoopingGpu, MarksRowsWithNaN) {
  const auto model = random_model(small_config(), 4, device_);
  const auto decoder = make_decoder("fused_looping", options(), "");
  decoder->prepare(model, {});
  EncodedBatch batch{at::randn({3, 30, 16}, at::TensorOptions(device_)),
                     at::tensor({30, 10, 29}, at::kLong).to(device_),
                     {30, 10, 29}};
  batch.frames[1][9][3] = NAN;
  batch.frames[2][29][3] = NAN;  // after the end of the row
  const auto found = decoder->decode(batch).to_host();
  EXPECT_FALSE(found[0].nan);
  EXPECT_TRUE(found[1].nan);
  EXPECT_FALSE(found[2].nan);
}

/// The logits are finite, but the sum of two of them is not.
TEST_P(FusedLoopingGpu, MarksRowsOfInfiniteScores) {
  const Case c{{1, {}, Table(2, std::vector<double>(2, 0)), {}},
               {{{2e38, 1}, {2e38, 1}}, {{1, 0}, {0, 1}}, {{-2e38, -3e38}, {-2e38, -3e38}}}};
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto found = run("fused_looping", options({{"max_symbols", 1}}), c, device_, dtype);
    EXPECT_TRUE(found[0].nan && found[2].nan) << dtype;
    EXPECT_FALSE(found[1].nan) << dtype;
    EXPECT_EQ(found[1].score, 1) << dtype;
  }
}

TEST_P(FusedLoopingGpu, MemoryStaysTheSameOverRandomBatches) {
  const auto model = random_model(small_config(), 4, device_);
  std::mt19937 random(5);
  const auto decoder = make_decoder("fused_looping", options(), "");
  decoder->prepare(model, {});
  const auto allocated = [] {
    c10::cuda::device_synchronize();
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
  };
  int64_t before = 0;
  for (int i = 0; i < 1020; ++i) {
    // The largest batch comes first, since the working memory grows with the batches.
    const int64_t rows = i == 0 ? 40 : 1 + static_cast<int64_t>(random() % 40),
                  frames = i == 0 ? 60 : static_cast<int64_t>(random() % 60);
    const EncodedBatch batch{at::randn({rows, frames, 16}, at::TensorOptions(device_)),
                             at::full({rows}, frames, at::TensorOptions(at::kLong).device(device_)),
                             std::vector<int64_t>(static_cast<size_t>(rows), frames)};
    decoder->decode(batch).to_host();
    if (i == 20) before = allocated() - batch.frames.numel() * 4;
    if (i == 1019) {
      EXPECT_NEAR(allocated() - batch.frames.numel() * 4, before, 1 << 16);
    }
  }
}

/// A block of the persistent kernel keeps 48 bytes of each row in its shared memory, which holds
/// about 3,750 rows on an H200. Larger batches are refused.
TEST_P(FusedLoopingGpu, RefusesABatchThatItsSharedMemoryCannotHold) {
  const auto model = random_model(small_config(), 4, device_);
  const bool bounded = std::string(GetParam()) == "persistent";
  const auto too_large = [&] {
    make_decoder("fused_looping", options(), "")->prepare(model, {5000, 10});
  };
  if (bounded) {
    EXPECT_THROW(too_large(), UserError);
  } else {
    EXPECT_NO_THROW(too_large());
  }
  const auto decoder = make_decoder("fused_looping", options(), "");
  decoder->prepare(model, {});  // no batch is known yet
  const bool h200 = at::cuda::getCurrentDeviceProperties()->sharedMemPerBlockOptin >= 227 << 10;
  for (const int64_t rows : {5000, 3700, 5000}) {
    const EncodedBatch batch{at::randn({rows, 2, 16}, at::TensorOptions(device_)),
                             at::full({rows}, 2, at::TensorOptions(at::kLong).device(device_)),
                             std::vector<int64_t>(static_cast<size_t>(rows), 2)};
    if (bounded && rows == 5000) {
      EXPECT_THROW(decoder->decode(batch), UserError);
    } else if (rows == 5000 || h200) {
      EXPECT_EQ(decoder->decode(batch).to_host().size(), static_cast<size_t>(rows));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, FusedLoopingGpu, testing::Values("persistent", "graph", "host"),
                         [](const auto& form) { return std::string(form.param); });

}  // namespace
}  // namespace rtfx
