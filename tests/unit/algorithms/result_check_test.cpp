#include "algorithms/result_check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace rtfx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

ModelConfig tdt_model() {
  ModelConfig model;
  model.has_ctc = model.has_transducer = true;
  model.durations = {0, 1, 2, 4};
  model.vocabulary = 9;
  return model;
}

Description decoder_of(Head head) {
  return {"d", head, Description::Exactness::exact, {}, "logit"};
}

EncodedBatch batch_of(const std::vector<int64_t>& lengths) {
  const auto rows = static_cast<int64_t>(lengths.size());
  return {at::zeros({rows, 6, 1}), at::tensor(lengths, at::kLong), lengths};
}

/// Returns the problem that the check finds in a row of five frames, or an empty string.
std::string problem_of(const Hypothesis& row, Head head = Head::transducer) {
  try {
    check_values({row}, batch_of({5}), ResultRules(decoder_of(head), tdt_model()));
  } catch (const WrongResult& e) {
    EXPECT_EQ(e.row(), 0);
    return e.what();
  }
  return "";
}

TEST(ResultCheck, WhatTheContractAllows) {
  EXPECT_EQ(problem_of({{}, {}, {}, -3.0F}), "");
  EXPECT_EQ(problem_of({{0, 8, 8}, {0, 4, 4}, {4, 0, 1}, -3.0F}), "");
  EXPECT_EQ(problem_of({{0, 8}, {0, 4}, {}, -3.0F}, Head::ctc), "");
  EXPECT_EQ(problem_of({{99}, {-4}, {3}, kInfinity, /*nan=*/true}), "");
}

TEST(ResultCheck, DurationsAreTheModels) {
  EXPECT_NE(problem_of({{1}, {0}, {3}, 0.0F}).find("token 0 has the duration 3, allowed are 0, 1"),
            std::string::npos);
}

/// A search in which each label moves returns the duration 1 where the model's is 0.
TEST(ResultCheck, AMovingTokenHasTheDurationOne) {
  Description moving = decoder_of(Head::transducer), other = moving;
  moving.score_kind = kMonotonicBeamScore;
  other.score_kind = kBeamScore;
  ModelConfig model = tdt_model();
  for (const std::vector<int64_t>& durations :
       std::vector<std::vector<int64_t>>{{0, 2, 3, 4}, {0}, {2, 3}}) {
    model.durations = durations;
    const std::vector<Hypothesis> rows = {{{1}, {0}, {1}, 0.0F}};
    if (durations[0] == 0) {
      EXPECT_NO_THROW(check_values(rows, batch_of({5}), ResultRules(moving, model)));
    } else {
      EXPECT_THROW(check_values(rows, batch_of({5}), ResultRules(moving, model)), WrongResult);
    }
    EXPECT_THROW(check_values(rows, batch_of({5}), ResultRules(other, model)), WrongResult);
  }
}

/// Returns the problem in a row with `count` tokens at frame 0 and one at frame 3, of five frames.
std::string problem_of_tokens(int64_t count, const Description& decoder,
                              const nlohmann::json& options) {
  ModelConfig model;
  model.has_ctc = model.has_transducer = true;
  model.vocabulary = 9;
  Hypothesis row;
  row.tokens.assign(static_cast<size_t>(count) + 1, 4);
  row.frames.assign(static_cast<size_t>(count), 0);
  row.frames.push_back(3);
  try {
    check_values({row}, batch_of({5}), ResultRules(decoder, model, options));
  } catch (const WrongResult& e) {
    EXPECT_EQ(e.row(), 0);
    return e.what();
  }
  return "";
}

TEST(ResultCheck, AFrameHasNoMoreTokensThanTheOptionSays) {
  const Description transducer = decoder_of(Head::transducer);
  const nlohmann::json options = {{"max_symbols", 10}};
  EXPECT_EQ(problem_of_tokens(10, transducer, options), "");
  EXPECT_TRUE(problem_of_tokens(11, transducer, options)
                  .ends_with("row 0: token 10 is the 11th at frame 0, max_symbols is 10"));
  EXPECT_EQ(problem_of_tokens(200'000, transducer, {}), "");  // a decoder without the option
}

TEST(ResultCheck, ACtcHeadHasNoMoreTokensThanFrames) {
  EXPECT_EQ(problem_of_tokens(4, decoder_of(Head::ctc), {{"max_symbols", 1}}), "");
  EXPECT_TRUE(problem_of_tokens(5, decoder_of(Head::ctc), {})
                  .ends_with("row 0: 6 tokens in 5 frames, of a CTC head"));
}

TEST(ResultCheck, ARowWithoutFramesHasNoTokens) {
  EXPECT_THROW(check_values({{{}, {}, {}, 0.0F}, {{1}, {0}, {}, 0.0F}}, batch_of({5, 0}),
                            ResultRules(decoder_of(Head::ctc), tdt_model())),
               WrongResult);
}

TEST(ResultCheck, ListsAreCheckedToo) {
  Hypothesis row{{1}, {0}, {1}, -1.0F};
  row.nbest = {row, {{1}, {5}, {1}, -2.0F}};
  EXPECT_NE(problem_of(row).find("n-best list: token 0 is at frame 5 of 5"), std::string::npos);
}

TEST(ResultCheck, OfATdtModelTheTransducerHasDurations) {
  const EncodedBatch batch = batch_of({5, 5});
  const ResultRules transducer(decoder_of(Head::transducer), tdt_model());
  const ResultRules ctc(decoder_of(Head::ctc), tdt_model());
  for (const bool durations : {false, true}) {
    const Hypotheses result = Hypotheses::one_block(2, 3, 4, durations, at::kCPU);
    const ResultRules &right = durations ? transducer : ctc, &wrong = durations ? ctc : transducer;
    EXPECT_NO_THROW(check_layout(result, batch, right));
    EXPECT_THROW(check_layout(result, batch, wrong), WrongResult);
  }
  EXPECT_NO_THROW(check_layout(Hypotheses::empty(2, at::kCPU), batch, ctc));
}

TEST(ResultCheck, AllTensorsAreWhereTheFirstIs) {
  const ResultRules rules(decoder_of(Head::ctc), tdt_model());
  const EncodedBatch on_host = batch_of({5, 5});
  EncodedBatch away = on_host;
  away.frames = at::zeros({2, 6, 1}, at::TensorOptions(at::kMeta));
  const Hypotheses here = Hypotheses::empty(2, at::kCPU), there = Hypotheses::empty(2, at::kMeta);
  const auto problem = [&](const Hypotheses& result, const EncodedBatch& batch) -> std::string {
    try {
      check_layout(result, batch, rules);
    } catch (const WrongResult& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(problem(here, away), "");
  EXPECT_EQ(problem(there, away), "");
  EXPECT_TRUE(problem(there, on_host).ends_with("`nan` is on meta, the batch on cpu"));
  Hypotheses mixed = here;
  mixed.nan = there.nan;
  EXPECT_TRUE(problem(mixed, away).ends_with("`lengths` is on cpu, `nan` on meta"));
  mixed = here;
  mixed.scores = there.scores;
  EXPECT_TRUE(problem(mixed, away).ends_with("`scores` is on meta, `nan` on cpu"));
}

TEST(ResultCheck, LengthsBeyondTheSlotsAreNotRead) {
  Hypotheses result = Hypotheses::one_block(2, 1, 4, false, at::kCPU);
  result.scores.zero_();
  result.nan.zero_();
  for (const int64_t length : {5, -1}) {
    result.lengths.fill_(length);
    EXPECT_THROW(result.to_host(), WrongResult);
  }
}

}  // namespace
}  // namespace rtfx
