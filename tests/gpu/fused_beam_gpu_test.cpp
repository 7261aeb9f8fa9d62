// Compares the kernels of fused beam searches with LibTorch's operators on the same GPU, for LSTM
// networks of every dtype, with and without a language model and phrases.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "tests/support/beam_cases.h"
#include "tests/support/boost_cases.h"
#include "tests/support/small_lm.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

using namespace test;

/// The parameters are a decoder's name, and whether the model is TDT.
class FusedBeamGpu : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }

  ModelConfig config(int64_t vocabulary) const {
    ModelConfig c = small_config();
    c.vocabulary = vocabulary;
    c.prediction.width = 64;
    c.joint_width = 40;
    if (!std::get<1>(GetParam())) c.durations = {};
    return c;
  }

  std::vector<Hypothesis> decode(nlohmann::json options, const std::string& step,
                                 const std::string& loop,
                                 std::shared_ptr<const AcousticModel> model,
                                 const EncodedBatch& batch) const {
    options["kernels"] = step;
    options["loop"] = loop;
    const auto decoder = make_decoder(std::get<0>(GetParam()), options, "");
    decoder->prepare(std::move(model), {batch.frames.size(0), batch.frames.size(1)});
    return decoder->decode(batch).to_host();
  }

  nlohmann::json options_of(int64_t beam, const SmallLm* lm, bool early, bool full) const {
    nlohmann::json options = {{"beam_size", beam}, {"nbest", beam}};
    // Long texts repeat themselves, so some are equally likely up to rounding.
    if (std::string(std::get<0>(GetParam())) == "alsd_pp") options["max_symbols"] = 3;
    if (lm != nullptr) {
      options["lm"] = {{"path", lm->path()},
                       {"alpha", 0.4},
                       {"beta", 0.1},
                       {"pruning", early ? "early" : "late"},
                       {"blank_scoring", full ? "lm_weighted_full" : "no_score"}};
    }
    return options;
  }

  const at::Device device_{at::kCUDA, 0};
};

TEST_P(FusedBeamGpu, EqualsTheOperators) {
  constexpr int64_t kVocabulary = 1000;
  const SmallLm lm(kVocabulary);
  std::mt19937 random(1);
  at::manual_seed(1);
  int64_t entries = 0, ties = 0;
  for (const int64_t layers : {1, 2}) {
    ModelConfig c = config(kVocabulary);
    c.prediction.layers = layers;
    const auto model = random_model(c, 7, device_);
    for (const int64_t rows : {1, 8, 32}) {
      const auto batch = random_batch(random, rows, 20, c.encoder.width, device_);
      for (const int64_t beam : {1, 4, 16}) {
        for (int mode = 0; mode < 5; ++mode) {
          const nlohmann::json options =
              options_of(beam, mode == 0 ? nullptr : &lm, mode % 2 == 1, mode > 2);
          const auto expected = decode(options, "operators", "host", model, batch);
          for (const char* loop : {"host", "graph"}) {
            const auto found = decode(options, "fused", loop, model, batch);
            for (size_t b = 0; b < expected.size(); ++b) {
              const std::string what = loop + options.dump() + std::to_string(b);
              if (beam == 1) {
                expect_same(found[b], expected[b], what);
              } else {
                ties += count_ties(found[b], expected[b], what);
                entries += static_cast<int64_t>(expected[b].nbest.size());
              }
            }
          }
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_LE(ties, entries / 1000);
}

/// Tests phrases with and without rescaled blanks.
TEST_P(FusedBeamGpu, EqualsTheOperatorsWithPhrases) {
  constexpr int64_t kVocabulary = 200;
  const SmallLm lm(kVocabulary);
  std::mt19937 random(3);
  at::manual_seed(3);
  const ModelConfig c = config(kVocabulary);
  const auto model = with_letters(random_model(c, 7, device_));
  const auto batch = random_batch(random, 8, 20, c.encoder.width, device_);
  int64_t entries = 0, ties = 0;
  for (int trial = 0; trial < 12 && !HasFailure(); ++trial) {
    nlohmann::json options = options_of(4, trial % 3 == 0 ? &lm : nullptr, trial % 2 == 0, true);
    options["boost"] = random_boost(random, kVocabulary, 100, 3).option();
    if (trial % 4 > 1) options["boost"]["blank_scoring"] = "lm_weighted_full";
    const auto expected = decode(options, "operators", "host", model, batch);
    for (const char* loop : {"host", "graph"}) {
      const auto found = decode(options, "fused", loop, model, batch);
      for (size_t b = 0; b < expected.size(); ++b) {
        ties += count_ties(found[b], expected[b], loop + options.dump() + std::to_string(b));
        entries += static_cast<int64_t>(expected[b].nbest.size());
      }
    }
  }
  EXPECT_LE(ties, entries / 200);
}

/// A language model has options that would act on phrases even at weight 0.
TEST_P(FusedBeamGpu, ALanguageModelWithoutWeightChangesNothing) {
  constexpr int64_t kVocabulary = 200;
  const SmallLm lm(kVocabulary);
  std::mt19937 random(6);
  at::manual_seed(6);
  const ModelConfig c = config(kVocabulary);
  const auto model = with_letters(random_model(c, 7, device_));
  const auto batch = random_batch(random, 8, 20, c.encoder.width, device_);
  for (int trial = 0; trial < 4; ++trial) {
    nlohmann::json options = options_of(4, nullptr, false, false);
    options["boost"] = random_boost(random, kVocabulary, 100, 3).option();
    options["boost"]["blank_scoring"] = "lm_weighted_full";
    nlohmann::json with_lm = options;
    with_lm["lm"] = {{"path", lm.path()}, {"alpha", 0}, {"pruning", "early"}, {"blank_eps", 0.5}};
    for (const char* loop : {"host", "graph"}) {
      EXPECT_EQ(decode(with_lm, "fused", loop, model, batch),
                decode(options, "fused", loop, model, batch))
          << loop << with_lm;
    }
  }
}

/// aes_pp compares all candidates of a TDT beam in shared memory, 16 bytes each. prepare() refuses
/// a beam that is too large, before it knows any batch.
TEST_P(FusedBeamGpu, RefusesABeamThatSharedMemoryCannotHold) {
  const auto model = random_model(config(1000), 7, device_);
  for (const int64_t beam : {16, 200}) {
    nlohmann::json options = options_of(beam, nullptr, false, false);
    options["kernels"] = "fused";
    const auto decoder = make_decoder(std::get<0>(GetParam()), options, "");
    if (beam == 200 && std::string(std::get<0>(GetParam())) == "aes_pp" &&
        std::get<1>(GetParam())) {
      try {
        decoder->prepare(model, {});
        ADD_FAILURE() << "was not refused";
      } catch (const UserError& e) {
        for (const char* part : {"a beam of 200", "shared memory", "beam_size"})
          EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
      }
    } else {
      EXPECT_NO_THROW(decoder->prepare(model, {}));
    }
  }
}

/// The gates are rounded differently now and then, which can change a close decision.
TEST_P(FusedBeamGpu, NearlyEqualsTheOperatorsInHalfPrecision) {
  constexpr int64_t kVocabulary = 200;
  std::mt19937 random(2);
  at::manual_seed(2);
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const ModelConfig c = config(kVocabulary);
    const auto model = random_model(c, 9, device_, dtype);
    const auto batch = random_batch(random, 64, 20, c.encoder.width, device_, dtype);
    const nlohmann::json options = options_of(4, nullptr, false, false);
    const auto expected = decode(options, "operators", "host", model, batch);
    const auto found = decode(options, "fused", "graph", model, batch);
    int equal = 0;  // pruning that differs by rounding may find a better text
    for (size_t b = 0; b < expected.size(); ++b) {
      const float within = 0.02F * (1 + std::abs(expected[b].score));
      EXPECT_GE(found[b].score, expected[b].score - within);
      if (found[b].tokens != expected[b].tokens) continue;
      ++equal;
      EXPECT_LE(found[b].score, expected[b].score + within);
    }
    EXPECT_GE(equal, 58) << toString(dtype);
  }
}

/// A language model's scores of all tokens need more shared memory than a block has by default.
TEST_P(FusedBeamGpu, ServesLargeVocabularies) {
  constexpr int64_t kVocabulary = 20000;
  const SmallLm lm(kVocabulary);
  std::mt19937 random(3);
  at::manual_seed(3);
  const ModelConfig c = config(kVocabulary);
  const auto model = random_model(c, 11, device_);
  const auto batch = random_batch(random, 3, 12, c.encoder.width, device_);
  for (const SmallLm* used : {&lm, static_cast<const SmallLm*>(nullptr)}) {
    const nlohmann::json options = options_of(8, used, false, true);
    const auto expected = decode(options, "operators", "host", model, batch);
    const auto found = decode(options, "fused", "graph", model, batch);
    for (size_t b = 0; b < expected.size(); ++b)
      expect_same(found[b], expected[b], std::to_string(b));
  }
}

/// Tests more slots than a warp has threads.
TEST_P(FusedBeamGpu, AWideBeamEqualsTheOperators) {
  std::mt19937 random(5);
  at::manual_seed(5);
  const ModelConfig c = config(1024);
  const auto model = random_model(c, 13, device_);
  const auto batch = random_batch(random, 6, 16, c.encoder.width, device_);
  const nlohmann::json options = options_of(40, nullptr, false, false);
  const auto expected = decode(options, "operators", "host", model, batch);
  const auto found = decode(options, "fused", "graph", model, batch);
  int64_t entries = 0, ties = 0;
  for (size_t b = 0; b < expected.size(); ++b) {
    ties += count_ties(found[b], expected[b], std::to_string(b));
    entries += static_cast<int64_t>(expected[b].nbest.size());
  }
  EXPECT_LE(ties, entries / 100);
}

/// Returns the results of ctc_beam with operators, and those with fused kernels.
std::vector<std::vector<Hypothesis>> by_operators_and_fused(nlohmann::json options,
                                                            int64_t vocabulary,
                                                            const EncodedBatch& batch) {
  std::vector<std::vector<Hypothesis>> found;
  for (const char* kernels : {"operators", "fused"}) {
    options["kernels"] = kernels;
    const auto decoder = make_decoder("ctc_beam", options, "");
    decoder->prepare(identity_model(vocabulary, batch.frames.device()), {});
    found.push_back(decoder->decode(batch).to_host());
  }
  return found;
}

TEST(FusedCtcBeamGpu, EqualsTheOperators) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  constexpr int64_t kVocabulary = 1000;
  const at::Device device(at::kCUDA, 0);
  const SmallLm lm(kVocabulary);
  std::mt19937 random(4);
  int64_t entries = 0, ties = 0;
  for (const size_t rows : {1, 8, 32}) {
    std::vector<int64_t> frames(rows);
    for (int64_t& n : frames) n = std::uniform_int_distribution<int64_t>(0, 60)(random);
    const BeamCase c = random_beam_case(random, false, kVocabulary, kVocabulary, frames);
    const auto batch = batch_of(c.rows, c.model.columns(), device);
    for (const int64_t beam : {1, 4, 16, 200}) {
      for (const bool with_lm : {false, true}) {
        nlohmann::json options = {{"beam_size", beam}, {"nbest", beam}};
        if (with_lm) options["lm"] = {{"path", lm.path()}, {"alpha", 0.4}, {"beta", 0.1}};
        const auto found = by_operators_and_fused(options, kVocabulary, batch);
        for (size_t b = 0; b < rows; ++b) {
          ties += count_ties(found[1][b], found[0][b], options.dump() + std::to_string(b));
          entries += static_cast<int64_t>(found[0][b].nbest.size());
        }
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_LE(ties, entries / 100);
}

/// At the first frame, there are fewer labels than places in the beam.
TEST(FusedCtcBeamGpu, ABeamBeyondTheVocabularyEqualsTheOperators) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  constexpr int64_t kVocabulary = 5, kBeam = 16;
  const at::Device device(at::kCUDA, 0);
  std::mt19937 random(7);
  const BeamCase c = random_beam_case(random, false, kVocabulary, kVocabulary, {12, 0, 1, 7});
  const auto batch = batch_of(c.rows, c.model.columns(), device);
  const auto found =
      by_operators_and_fused({{"beam_size", kBeam}, {"nbest", kBeam}}, kVocabulary, batch);
  int64_t ties = 0;
  for (size_t b = 0; b < c.rows.size(); ++b)
    ties += count_ties(found[1][b], found[0][b], std::to_string(b));
  EXPECT_LE(ties, 2);
  EXPECT_EQ(found[1][2].nbest.size(), kVocabulary + 1);  // one frame: no text, or one of the tokens
}

INSTANTIATE_TEST_SUITE_P(
    Decoders, FusedBeamGpu,
    testing::Combine(testing::Values("alsd_pp", "aes_pp", "modified_beam_search"), testing::Bool()),
    [](const auto& info) {
      const bool tdt = std::get<1>(info.param);
      return std::string(std::get<0>(info.param)) + (tdt ? "_tdt" : "_rnnt");
    });

}  // namespace
}  // namespace rtfx
