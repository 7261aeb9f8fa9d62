// With a beam that loses nothing, the score of a text is the sum over all of its alignments. This
// also holds with a language model.
#include <gtest/gtest.h>

#include "algorithms/streams.h"
#include "tests/support/beam_cases.h"
#include "tests/support/small_lm.h"

namespace rtfx {
namespace {

using namespace test;

/// A beam that holds all hypotheses of two frames and few more, because time grows with the cube of
/// the beam. Texts of up to `longest` tokens are compared.
struct Size {
  int64_t beam;
  size_t longest;
  int trials;
};

std::vector<Size> sizes(bool tdt) {
  return tdt ? std::vector<Size>{{110, 1, 6}, {260, 2, 1}}
             : std::vector<Size>{{50, 1, 15}, {120, 2, 2}};
}

/// Returns `next` fused with the language model, as fusion.h defines it.
NextOf fused(const NextOf& next, const SmallLm& lm, double alpha, double beta, bool full) {
  return [&lm, next, alpha, beta, full](size_t frame, const Text& text) {
    Next n = next(frame, text);
    const double blank = n.labels.back();
    for (int32_t k = 0; k < 2; ++k) {
      double& label = n.labels[static_cast<size_t>(k)];
      label += alpha * lm.score(text, k) + beta;
      if (full) label += alpha * std::log1p(-std::min(std::exp(blank), 1 - 1e-2));
    }
    if (full) n.labels.back() *= 1 + alpha;
    return n;
  };
}

using OptionsOf = std::function<nlohmann::json(const Size&)>;

void expect_exact(const std::string& decoder, const OptionsOf& options_of, bool tdt,
                  const std::function<NextOf(const NextOf&)>& fuse = {}) {
  std::mt19937 random(tdt ? 3 : 5);
  for (const Size& size : sizes(tdt)) {
    nlohmann::json options = options_of(size);
    options["nbest"] = options["beam_size"] = size.beam;
    for (int trial = 0; trial < size.trials; ++trial) {
      const BeamCase c = random_beam_case(random, tdt, size.beam, 2, {2, 1});
      const auto found = run(decoder, options, c);
      for (size_t b = 0; b < c.rows.size(); ++b) {
        NextOf next = next_of(c.model, c.rows[b]);
        if (fuse) next = fuse(next);
        for (const Text& text : all_texts(c.tokens, size.longest)) {
          EXPECT_NEAR(listed_score(found[b], text),
                      exact_score(next, c.rows[b].size(), c.model, text), 2e-5)
              << decoder << " " << options << " trial " << trial << " row " << b << " text "
              << testing::PrintToString(text);
        }
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

class BeamOracle : public testing::TestWithParam<bool> {};

TEST_P(BeamOracle, AlsdSumsOverAllAlignments) {
  expect_exact(
      "alsd",
      [](const Size& s) {
        return nlohmann::json{{"max_target_abs", s.longest + 2}};
      },
      GetParam());
}

TEST(AlsdOptions, TheLongestTextIsBounded) {
  const auto make = [](int64_t most) { make_decoder("alsd", {{"max_target_abs", most}}, "test"); };
  EXPECT_NO_THROW(make((int64_t{1} << 31) - 1));
  EXPECT_THROW(make(int64_t{1} << 31), UserError);  // its sum with the frames must not overflow
}

/// Allows more symbols than the longest text has, so that no text meets a forced blank.
nlohmann::json alsd_pp_options(const Size& size) { return {{"max_symbols", size.longest + 1}}; }

TEST_P(BeamOracle, AlsdPpSumsOverAllAlignments) {
  expect_exact("alsd_pp", alsd_pp_options, GetParam());
  const auto merging = [](const Size& size) {
    nlohmann::json options = alsd_pp_options(size);
    options["merge_finished"] = true;
    return options;
  };
  expect_exact("alsd_pp", merging, GetParam());
  const auto fused_step = [](const Size& size) {
    nlohmann::json options = alsd_pp_options(size);
    options["kernels"] = "fused";
    return options;
  };
  expect_exact("alsd_pp", fused_step, GetParam());
}

TEST(WindowedBeamOracle, AlsdPpWindowsSumsOverAllAlignments) {
  for (const int window : {2, 8}) {
    const auto options = [window](const Size& size) {
      nlohmann::json all = alsd_pp_options(size);
      all["window"] = window;
      return all;
    };
    expect_exact("alsd_pp", options, /*tdt=*/false);
  }
}

/// Allows more steps than the longest text has tokens, so that no text meets a forced blank. The
/// prefix search has any length, and pruning leaves out nothing likely.
nlohmann::json aes_options(const Size& size) {
  return {{"num_steps", size.longest + 1},
          {"prefix_alpha", 100},
          {"expansion_gamma", 60},
          {"expansion_beta", 0}};
}

TEST_P(BeamOracle, AesSumsOverAllAlignments) { expect_exact("aes", aes_options, GetParam()); }

TEST_P(BeamOracle, AlsdPpWithALanguageModel) {
  const SmallLm lm(400);
  const double alpha = 0.7, beta = 0.2;
  for (const bool full : {false, true}) {
    const auto options = [&](const Size& size) {
      nlohmann::json all = alsd_pp_options(size);
      all["lm"] = {{"path", lm.path()},
                   {"alpha", alpha},
                   {"beta", beta},
                   {"pruning", GetParam() == full ? "late" : "early"},
                   {"blank_scoring", full ? "lm_weighted_full" : "no_score"}};
      return all;
    };
    expect_exact("alsd_pp", options, GetParam(),
                 [&](const NextOf& next) { return fused(next, lm, alpha, beta, full); });
  }
}

TEST_P(BeamOracle, AesWithALanguageModel) {
  const SmallLm lm(400);
  const auto options = [&](const Size& size) {
    nlohmann::json all = aes_options(size);
    all["lm"] = {{"path", lm.path()}, {"alpha", 0.7}};
    return all;
  };
  expect_exact("aes", options, GetParam(),
               [&](const NextOf& next) { return fused(next, lm, 0.7, 0, false); });
}

/// At the second frame, only a token survives the choice by acoustic scores, and the language model
/// gives it the probability 0.
TEST(AesLanguageModel, ABlankRemainsWhereAllChosenTokensAreImpossible) {
  testing::internal::CaptureStderr();
  const SmallLm lm(8, /*has_unk=*/false);
  const BeamCase c = certain_token();
  for (const int beam : {1, 4}) {
    const nlohmann::json options = {{"beam_size", beam},
                                    {"lm", {{"path", lm.path()}, {"alpha", 0.3}}}};
    const Hypothesis found = run("aes", options, c)[0];
    EXPECT_FALSE(found.nan);
    EXPECT_TRUE(found.tokens.empty());
    EXPECT_NEAR(found.score, exact_score(next_of(c.model, c.rows[0]), 3, c.model, {}), 1e-5);
  }
  const std::string messages = testing::internal::GetCapturedStderr();
  EXPECT_NE(messages.find("has no <unk>, so that 6 of the model's 8 tokens"), std::string::npos)
      << messages;
}

/// The language model gives the probability 0 to the only token that is chosen at the second frame.
TEST(ImpossibleBeam, MarksTheResultOfABatchAndOfAStream) {
  const SmallLm lm(8, /*has_unk=*/false);
  const BeamCase c = certain_token();
  const auto model = build(c.model);
  const EncodedBatch batch = batch_of(c.rows, c.model.columns());
  for (const char* name : {"alsd_pp", "aes_pp", "modified_beam_search"}) {
    const nlohmann::json options = {
        {"beam_size", 1}, {"lm", {{"path", lm.path()}, {"alpha", 0.3}, {"pruning", "early"}}}};
    const auto decoder = make_decoder(name, options, "");
    decoder->prepare(model, {});
    EXPECT_TRUE(decoder->decode(batch).to_host()[0].nan) << name;
    const auto streams = decoder->streams({1, 4});
    const int64_t stream = streams->open();
    streams->push({&stream, 1}, {streams->project(batch.frames), {}, {3}});
    EXPECT_TRUE(streams->finish(stream).nan) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, BeamOracle, testing::Bool(),
                         [](const auto& info) { return info.param ? "Tdt" : "Rnnt"; });

}  // namespace
}  // namespace rtfx
