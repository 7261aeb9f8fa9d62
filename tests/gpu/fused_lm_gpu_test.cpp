// Tests a language model in the fused kernels, in all their forms, alone and with boosted phrases
// and allowed characters. They equal label_looping on tables (exact arithmetic) and on random LSTM
// models, for whole batches and for streams.
#include <ATen/cuda/CUDAContextLight.h>
#include <gtest/gtest.h>

#include "tests/support/boost_cases.h"
#include "tests/support/greedy_lm_cases.h"
#include "tests/support/piece_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

class FusedLmGpu : public TempFolder, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
  nlohmann::json options(nlohmann::json more = nlohmann::json::object()) const {
    more["loop"] = GetParam();
    return more;
  }
  const at::Device device_{at::kCUDA, 0};
};

/// Returns TDT for even trials and RNN-T for odd ones.
TransducerKind kind_of(int trial) {
  return trial % 2 == 0 ? TransducerKind::tdt : TransducerKind::rnnt;
}

TEST_P(FusedLmGpu, EqualsThePlainSearchOnTables) {
  std::mt19937 random(51);
  int different = 0;
  for (int trial = 0; trial < 16 && !HasFailure(); ++trial) {
    const Case c = random_case(random, kTransducerKinds[trial % 3], trial % 4 < 2);
    const LmCase lm =
        random_lm(random, c.model.vocabulary, path("lm" + std::to_string(trial) + ".arpa"));
    const int64_t max_symbols = 1 + trial % 4;
    const auto bonus = [&](const auto& t, int32_t k) { return lm.bonus(t, k); };
    const nlohmann::json both = {{"max_symbols", max_symbols}, {"lm", lm.option}};
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto expected = run("label_looping", both, c, device_, dtype);
      for (const int window : {1, 8}) {
        nlohmann::json given = options(both);
        given["window"] = window;
        const auto found = run("fused_looping", given, c, device_, dtype);
        EXPECT_EQ(found, expected) << given << " trial " << trial << ' ' << dtype;
        for (size_t b = 0; b < found.size(); ++b) {
          const Hypothesis plain = oracle(c.model, c.rows[b], max_symbols, bonus);
          EXPECT_EQ(found[b].tokens, plain.tokens) << given << " trial " << trial << " row " << b;
          EXPECT_EQ(found[b].frames, plain.frames);
          EXPECT_EQ(found[b].durations, plain.durations);
          EXPECT_NEAR(found[b].score, plain.score, 1e-3);
          different += found[b].tokens != oracle(c.model, c.rows[b], max_symbols).tokens;
        }
      }
    }
  }
  EXPECT_GT(different, 30) << "the language models do change results";
}

/// Tests contexts with more arcs than a block has threads, and texts that enter and leave long
/// contexts.
TEST_P(FusedLmGpu, EqualsLabelLoopingOnWideTables) {
  std::mt19937 random(52);
  int different = 0;
  for (int trial = 0; trial < 8 && !HasFailure(); ++trial) {
    const int64_t vocabulary =
        std::vector<int64_t>{40, 700, 1030, 150}[static_cast<size_t>(trial % 4)];
    const int64_t rows = std::vector<int64_t>{4, 33, 1, 150}[static_cast<size_t>(trial % 4)];
    Case c = wide_case(random, kind_of(trial), trial % 4 < 2, vocabulary, rows);
    // Tokens that have contexts of their own are made frequent.
    for (Table& row : c.rows)
      for (auto& frame : row)
        for (size_t k = 0; k < 6; ++k) frame[k] += 3;
    const LmCase lm = trial < 4 ? wide_lm(random, vocabulary, path("wide.arpa"))
                                : random_lm(random, 9, path("few.arpa"));
    const nlohmann::json both = {{"max_symbols", 3}, {"lm", lm.option}};
    for (const auto dtype : {at::kFloat, at::kHalf}) {
      const auto expected = run("label_looping", both, c, device_, dtype);
      EXPECT_EQ(run("fused_looping", options(both), c, device_, dtype), expected)
          << "trial " << trial << ' ' << dtype;
      different += expected != run("label_looping", {{"max_symbols", 3}}, c, device_, dtype);
    }
  }
  EXPECT_GT(different, 8);
}

/// The test is small enough for compute-sanitizer's racecheck.
TEST_P(FusedLmGpu, OneSmallBatch) {
  std::mt19937 random(53);
  const Case c = wide_case(random, TransducerKind::tdt, true, 40, 4);
  const LmCase lm = wide_lm(random, 40, path("lm.arpa"));
  const nlohmann::json both = {{"max_symbols", 2}, {"lm", lm.option}};
  EXPECT_EQ(run("fused_looping", options(both), c, device_, at::kBFloat16),
            run("label_looping", both, c, device_, at::kBFloat16));
}

TEST_P(FusedLmGpu, GoesWithPhrasesAndAllowedCharacters) {
  std::mt19937 random(54);
  for (int trial = 0; trial < 9 && !HasFailure(); ++trial) {
    const Case c = wide_case(random, kind_of(trial), trial % 4 < 2, 40, 9);
    const LmCase lm = wide_lm(random, 40, path("lm.arpa"));
    nlohmann::json both = {{"max_symbols", 3}, {"lm", lm.option}};
    if (trial % 3 != 0) both["boost"] = random_boost(random, 8, 12, 4).option();
    if (trial % 3 != 1) both["allowed"] = {"U+0062-U+9FFF"};  // all but the first token
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto search = [&](const char* name, const nlohmann::json& given) {
        return BoostedSearch(name, given, build(c.model, device_, dtype),
                             batch_of(c.rows, c.model.columns(), device_, dtype))();
      };
      EXPECT_EQ(search("fused_looping", options(both)), search("label_looping", both))
          << both << " trial " << trial << ' ' << dtype;
    }
  }
}

TEST_P(FusedLmGpu, EqualsLabelLoopingOnLstmModels) {
  at::manual_seed(4);
  std::mt19937 random(55);
  for (int trial = 0; trial < 6 && !HasFailure(); ++trial) {
    ModelConfig config = small_config();
    config.prediction.layers = 1 + trial % 2;
    config.prediction.width = 64;
    config.joint_width = 96;
    config.vocabulary = trial % 2 == 0 ? 20 : 150;
    if (trial % 3 == 0) config.durations = {};
    const auto model = random_model(config, static_cast<uint64_t>(trial), device_);
    const LmCase lm = wide_lm(random, config.vocabulary, path("lm.arpa"));
    const nlohmann::json both = {{"max_symbols", 4}, {"lm", lm.option}};
    const auto reference = make_decoder("label_looping", both, "");
    const auto decoder = make_decoder("fused_looping", options(both), "");
    for (const auto& d : {reference.get(), decoder.get()}) d->prepare(model, {});
    for (const int64_t rows : {1, 5, 33, 150, 290, 2}) {  // up to three rows for a block
      const EncodedBatch batch =
          random_batch(random, rows, 25, config.encoder.width, device_, at::kFloat);
      const auto expected = reference->decode(batch).to_host();
      const auto found = decoder->decode(batch).to_host();
      for (size_t b = 0; b < expected.size(); ++b) {
        EXPECT_EQ(found[b].tokens, expected[b].tokens) << trial << " " << rows << " " << b;
        EXPECT_EQ(found[b].frames, expected[b].frames);
        EXPECT_EQ(found[b].durations, expected[b].durations);
        EXPECT_NEAR(found[b].score, expected[b].score, 1e-3 * (1 + std::abs(expected[b].score)));
        EXPECT_FALSE(found[b].nan);
      }
    }
  }
}

TEST_P(FusedLmGpu, WeightZeroIsNoLanguageModel) {
  std::mt19937 random(56);
  const Case c = wide_case(random, TransducerKind::tdt, true, 40, 9);
  LmCase lm = wide_lm(random, 40, path("lm.arpa"));
  const auto with = make_decoder("fused_looping", options({{"lm", lm.option}}), "");
  EXPECT_EQ(with->describe().exactness, Description::Exactness::approximate);
  lm.option["alpha"] = 0;
  EXPECT_EQ(run("fused_looping", options({{"lm", lm.option}}), c, device_),
            run("fused_looping", options(), c, device_));
}

/// The threads that write bonuses end with a search without steps, and serve the next search.
TEST_P(FusedLmGpu, BatchesWithoutFramesGiveNothing) {
  std::mt19937 random(58);
  const ModelConfig config = small_config();
  const LmCase lm = wide_lm(random, config.vocabulary, path("lm.arpa"));
  const auto decoder = make_decoder("fused_looping", options({{"lm", lm.option}}), "");
  decoder->prepare(random_model(config, 3, device_), {});
  const EncodedBatch batch = random_batch(random, 7, 25, config.encoder.width, device_);
  EncodedBatch empty = batch;
  empty.lengths_host.assign(batch.lengths_host.size(), 0);
  empty.lengths = at::zeros_like(batch.lengths);
  const auto expected = decoder->decode(batch).to_host();
  for (int round = 0; round < 3 && !HasFailure(); ++round) {
    for (const Hypothesis& nothing : decoder->decode(empty).to_host())
      EXPECT_TRUE(nothing.tokens.empty());
    EXPECT_EQ(decoder->decode(batch).to_host(), expected);
  }
}

/// Random pieces of several streams, for LSTM and stateless models, alone and with phrases, give
/// the bits of the whole utterance.
TEST_P(FusedLmGpu, PiecesOfStreamsEqualTheWhole) {
  std::mt19937 random(57);
  ModelConfig stateless = small_config();
  stateless.prediction.kind = PredictionConfig::Kind::stateless;
  stateless.prediction.context_size = 2;
  const LmCase lm = wide_lm(random, small_config().vocabulary, path("lm.arpa"));
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const ModelConfig& config :
         {small_config(), with_durations(small_config(), {}), stateless}) {
      const auto model = with_letters(random_model(config, 8, device_, dtype));
      for (const bool boosts : {false, true}) {
        nlohmann::json given = options({{"max_symbols", 3}, {"lm", lm.option}});
        if (boosts) given["boost"] = random_boost(random, config.vocabulary, 30, 3).option();
        for (uint32_t seed = 0; seed < 2 && !HasFailure(); ++seed)
          random_pieces({"fused_looping", given, model}, seed);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, FusedLmGpu, testing::Values("persistent", "graph", "host"),
                         [](const auto& form) { return std::string(form.param); });

}  // namespace
}  // namespace rtfx
