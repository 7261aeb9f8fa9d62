// Tests the conclusions of a run: which results are wrong, and which decoder won.
#include "harness/results/conclusion.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "harness/results/metrics.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

class ConclusionTest : public test::TempFolder {
 protected:
  /// A decoder of a run. `decode` has the seconds of each round for 100 s of audio.
  struct Arm {
    std::string id;
    std::vector<double> decode;
    std::string grade = "bitwise";
    int64_t errors = 10;  // in 100 words
    json more = json::object();
  };

  ResultSet run(const std::vector<Arm>& arms, const std::string& dtype = "fp32",
                const std::string& folder = "run") const {
    std::string lines =
        to_line({{"kind", "provenance"},
                 {"provenance_id", "p"},
                 {"config",
                  {{"protocol", {{"cv_max", 0.5}}},
                   {"verify", {{"required", {{"fp32", "exact"}, {"bf16", "different"}}}}}}},
                 {"rtfx", {{"build_type", "Release"}, {"sanitizer", false}}}});
    for (const Arm& arm : arms) {
      for (size_t round = 0; round < arm.decode.size(); ++round)
        lines += to_line(record(arm, round, dtype));
    }
    return read_results(write(folder + "/journal.jsonl", lines));
  }

  static json record(const Arm& arm, size_t round, const std::string& dtype) {
    json fields = {
        {"kind", "run"},
        {"provenance_id", "p"},
        {"case", "m/d/" + arm.id + "/b8/" + dtype},
        {"result_key", arm.id},
        {"round", round},
        {"model", {{"id", "m"}}},
        {"dataset", {{"id", "d"}, {"utterances", 8}, {"audio_seconds", 100}}},
        {"decoder",
         {{"id", arm.id}, {"name", arm.id}, {"head", "transducer"}, {"exactness", "exact"}}},
        {"batch", {{"by", "count"}, {"size", 8}}},
        {"dtype", dtype},
        {"device", "cpu"},
        {"regions", {{"decode", {{"host_seconds", arm.decode[round]}}}}},
        {"total_seconds", 1 + arm.decode[round]},
        {"metrics",
         {{"rtfx.total", 100 / (1 + arm.decode[round])},
          {"rtfx.encode_decode", nullptr},
          {"rtfx.decode", 100 / arm.decode[round]},
          {"share.decode", nullptr}}},
        {"wer",
         {{"normalizer", "none"},
          {"version", 1},
          {"wer", static_cast<double>(arm.errors) / 100},
          {"substitutions", arm.errors},
          {"deletions", 0},
          {"insertions", 0},
          {"reference_words", 100}}},
        {"exactness",
         {{"baseline", "frame"},
          {"grade", arm.id == "frame" ? "baseline" : arm.grade},
          {"grades", json::object()},
          {"first_difference", nullptr}}},
        {"deterministic", true},
        {"hypotheses_sha256", "h"}};
    fields.merge_patch(arm.more);
    return fields;
  }

  static constexpr double kSlow = 2.0;
  const Arm frame{"frame", {kSlow, kSlow, kSlow}, "baseline"};
};

TEST_F(ConclusionTest, AWrongDecoderIsNamedAndWinsNothing) {
  const Arm greedy{"greedy", {0.5, 0.5, 0.5}, "different", 60}, label{"label", {1, 1.02, 0.98}};
  const Conclusion found = conclude(all_of(run({frame, greedy, label})));
  EXPECT_EQ(found.wrong, Texts{"WRONG: greedy on m: graded different against frame, and exact is "
                               "required; WER 60.00 % instead of 10.00 %."});
  ASSERT_EQ(found.won.size(), 1U);
  EXPECT_HAS(found.won[0], "m: label decodes 2.00 times as fast as frame (batch 8, fp32; 95 %: ");
}

TEST_F(ConclusionTest, TheSentenceSaysOfHowManyGainsItIsTheBest) {
  const Arm a{"a", {1, 1.02, 0.98}}, b{"b", {1.5, 1.51, 1.49}};
  const Conclusion found = conclude(all_of(run({frame, a, b})));
  EXPECT_HAS(found.won.at(0),
             "m: a decodes 2.00 times as fast as frame (batch 8, fp32, best of 2; 95 %: ");
}

TEST_F(ConclusionTest, MoreWordErrorsThanChanceMakesAreWrongWhateverGradeIsAllowed) {
  const Arm greedy{"greedy", {1, 1, 1}, "different", 60},
      label{"label", {1.5, 1.5, 1.5}, "different", 12};
  const Conclusion found = conclude(all_of(run({frame, greedy, label}, "bf16")));
  EXPECT_EQ(
      found.wrong,
      Texts{"WRONG: greedy on m: more word errors than frame; WER 60.00 % instead of 10.00 %."});
  EXPECT_HAS(found.won.at(0), "m: label decodes");
}

TEST_F(ConclusionTest, OtherFaultsAreWrong) {
  const Arm unsure{"unsure", {1, 1, 1}, "bitwise", 10, {{"deterministic", false}}},
      mute{"mute", {1, 1, 1}, "bitwise", 10, {{"all_empty", true}}};
  const Conclusion found = conclude(all_of(run({frame, unsure, mute})));
  ASSERT_EQ(found.wrong.size(), 2U);
  EXPECT_HAS(found.wrong[0], "WRONG: unsure on m: it did not repeat its own hypotheses");
  EXPECT_HAS(found.wrong[1], "WRONG: mute on m: no result has a token");
  EXPECT_TRUE(found.won.empty());
}

TEST_F(ConclusionTest, UnmarkedDecodersComeBeforeMarkedOnes) {
  const Arm fast{"fast", {0.2, 0.2, 0.2}, "bitwise", 10, {{"suspect", {"cpu_wait"}}}},
      label{"label", {1, 1.02, 0.98}};
  EXPECT_HAS(conclude(all_of(run({frame, fast, label}))).won.at(0), "m: label decodes 2.00 times");
  const std::string alone = conclude(all_of(run({frame, fast}))).won.at(0);
  EXPECT_HAS(alone, "m: fast decodes 10.00 times as fast as frame");
  EXPECT_HAS(alone, "suspect 3/3");
}

TEST_F(ConclusionTest, ASlowerDecoderDoesNotComeFirst) {
  const Arm slow{"slow", {4, 4.01, 3.99}}, label{"label", {1.9, 2.1, 1.95}};
  EXPECT_HAS(conclude(all_of(run({frame, slow, label}))).won.at(0), "no difference: label");
}

/// The machine becomes slower within the run, so only rounds of equal numbers compare.
TEST_F(ConclusionTest, RoundsPairByTheirNumbers) {
  /// Returns the ratio of speeds when these rounds of each decoder are suspect.
  const auto ratio_without = [&](const std::vector<std::vector<size_t>>& suspect) {
    ResultSet results = run({{"frame", {1, 2, 4, 8, 16}, "baseline"}, {"fast", {0.5, 1, 2, 4, 8}}});
    for (size_t decoder = 0; decoder < suspect.size(); ++decoder) {
      for (const size_t round : suspect[decoder]) {
        record::Round& record = results.cases.at(decoder).summary.rounds.at(round);
        std::get<record::Run>(record).suspect = std::vector<std::string>{"cpu_wait"};
      }
    }
    return *ratio_within_run(find_metric("rtfx.decode", ""), results.cases.at(0).summary,
                             results.cases.at(1).summary);
  };
  for (const Interval& paired : {ratio_without({{0}, {0}}), ratio_without({{0}, {4}})}) {
    EXPECT_NEAR(paired.low, 2, 1e-9);
    EXPECT_NEAR(paired.high, 2, 1e-9);
  }
  const Interval unpaired = ratio_without({{0, 1}, {3, 4}});  // only one round counts for both
  EXPECT_LT(unpaired.low, 2);
  EXPECT_GT(unpaired.high, 8);
}

/// The second run is on a machine twice as fast, and its rounds have the same numbers. Rounds must
/// pair within their run.
TEST_F(ConclusionTest, RoundsOfTwoRunsInOneJournalPairByTheirRun) {
  ResultSet results = run({{"frame", {4, 4.4, 4, 4.4}, "baseline"}, {"fast", {2, 2.2, 2, 2.2}}});
  for (CaseResult& c : results.cases) {
    for (size_t i : {1, 3}) {
      auto& round = std::get<record::Run>(c.summary.rounds[i]);
      round.round = static_cast<int64_t>(i) - 1;
      round.provenance_id = "q";
      auto& speed = round.metrics["rtfx.decode"];
      speed = Nullable<Number>(Number(2 * static_cast<double>(*speed)));
    }
  }
  const Interval ratio = *ratio_within_run(
      find_metric("rtfx.decode", ""), results.cases.at(0).summary, results.cases.at(1).summary);
  EXPECT_NEAR(ratio.low, 2, 1e-9);
  EXPECT_NEAR(ratio.high, 2, 1e-9);
}

TEST_F(ConclusionTest, ADecoderOfAnotherInvocationIsComparedWithDrift) {
  ResultSet results = run({frame, {"fast", {1, 1, 1}}});
  const auto ratio = [&] {
    return *ratio_within_run(find_metric("rtfx.decode", ""), results.cases.at(0).summary,
                             results.cases.at(1).summary);
  };
  EXPECT_NEAR(ratio().high, 2, 1e-9);
  for (record::Round& round : results.cases.at(1).summary.rounds)
    std::get<record::Run>(round).provenance_id = "q";
  EXPECT_NEAR(ratio().high, 2 * std::exp(1.96 * kRunDrift * std::sqrt(2.0)), 1e-3);
}

TEST_F(ConclusionTest, ASuspectRoundThatIsLeftOutCostsNoPlace) {
  const Arm still{"frame", {kSlow, kSlow, kSlow, kSlow}, "baseline"},
      label{"label", {1.9, 1.91, 1.89, 1.9}};
  ResultSet results = run({still, {"fast", {1, 1.01, 0.99, 3}}, label});
  for (CaseResult& c : results.cases) {
    if (c.decoder() != "fast") continue;
    std::get<record::Run>(c.summary.rounds.back()).suspect = std::vector<std::string>{"cpu_wait"};
  }
  const std::string won = conclude(all_of(results)).won.at(0);
  EXPECT_HAS(won, "fast decodes 2.00 times");
  EXPECT_HAS(won, "suspect 1/4");
}

TEST_F(ConclusionTest, AnIntervalThatHoldsOneIsNoDifference) {
  const Arm label{"label", {1.9, 2.1, 1.95}};
  EXPECT_EQ(conclude(all_of(run({frame, label}))).won,
            Texts{"m: no difference: label decodes 1.009 times as fast as frame (batch 8, fp32; "
                  "95 %: 0.887 to 1.148, which holds 1)."});
}

TEST_F(ConclusionTest, TwoRunsAreOneSentenceForEachSpeed) {
  const ResultSet before = run({frame, {"label", {1, 1.02, 0.98}}}, "fp32", "before");
  const ResultSet now =
      run({{"frame", {1, 1.01, 0.99}, "baseline"}, {"label", {0.5, 0.51, 0.49}}}, "fp32", "now");
  const Texts found = conclude(before, now, "A", "B");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_HAS(found[0], "B turns audio into text 1.41 times as fast as A (mean of 2 cases; 95 %: ");
  EXPECT_HAS(found[1], "B decodes 2.00 times as fast as A (mean of 2 cases; 95 %: ");
  const Texts same_runs = conclude(before, before, "A", "B");
  EXPECT_EQ(same_runs.size(), 2U);
  for (const std::string& same : same_runs) EXPECT_EQ(same.find("no difference: B "), 0U) << same;
}

TEST_F(ConclusionTest, TheSentenceOfTwoRunsSaysHowManyCasesWereDisturbed) {
  const json suspect = {{"suspect", {"cpu_wait"}}};
  const Arm label{"label", {1, 1.02, 0.98}}, noisy{"label", {1, 4, 0.2}};
  const Arm disturbed{"label", {1, 1.02, 0.98}, "bitwise", 10, suspect};
  const ResultSet quiet = run({frame, label}, "fp32", "quiet"),
                  one = run({frame, disturbed}, "fp32", "one"),
                  wild = run({frame, noisy}, "fp32", "wild");
  EXPECT_HAS(conclude(one, quiet, "A", "B").at(1), "(mean of 2 cases, suspect in 1; 95 %: ");
  EXPECT_HAS(conclude(quiet, one, "A", "B").at(1), "(mean of 2 cases, suspect in 1; 95 %: ");
  EXPECT_HAS(conclude(wild, one, "A", "B").at(1), "(mean of 2 cases, NOISY in 1, suspect in 1; ");
  const ResultSet alone = run({disturbed}, "fp32", "alone");
  EXPECT_HAS(conclude(alone, quiet, "A", "B").at(1), "(one case, suspect; 95 %: ");
}

TEST_F(ConclusionTest, AWrongDecoderDoesNotCountBetweenTwoRuns) {
  const ResultSet before = run({frame, {"label", {1, 1.02, 0.98}}}, "bf16", "before");
  const ResultSet now = run({frame, {"label", {0.1, 0.11, 0.1}, "different", 60}}, "bf16", "now");
  for (const std::string& sentence : conclude(before, now, "A", "B"))
    EXPECT_HAS(sentence, "no difference");
}

TEST(ConclusionOfAGate, UnfairRowsNameNoWinner) {
  GateRow row{.case_name = "m/d/label/b8/fp32",
              .what = "rtfx.decode",
              .baseline = 1,
              .current = 2,
              .change = Interval{2, 1.9, 2.1},
              .tolerance = 0.05,
              .floor = 0.01};
  EXPECT_EQ(conclude({row}).size(), 1U);
  row.is_fair = false;
  EXPECT_TRUE(conclude({row}).empty());
}

}  // namespace
}  // namespace rtfx
