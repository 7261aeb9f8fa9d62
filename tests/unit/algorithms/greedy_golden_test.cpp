// Worked examples of greedy search: tokens, frames, scores and counts of calls.
#include <gtest/gtest.h>

#include "algorithms/decoder.h"
#include "algorithms/decoders/greedy/ctc_greedy/ctc_greedy.h"
#include "tests/support/table_model.h"

namespace rtfx {
namespace {

using test::Table;
using test::TableModel;

struct Result {
  std::vector<Hypothesis> hypotheses;
  Counters counters;
};

Result run(const std::string& name, nlohmann::json options, const TableModel& model,
           const std::vector<Table>& rows) {
  const auto decoder = make_decoder(name, options, "");
  decoder->prepare(test::build(model), {});
  Result result;
  result.hypotheses = decoder->decode(test::batch_of(rows, model.columns())).to_host();
  result.counters = decoder->counters();
  return result;
}

using Ints = std::vector<int32_t>;

/// In the example "CAT / DOG", the last token decides which token may come next, and the frame
/// decides whether it comes.
struct CatDog {
  // C A T D O G = 0..5, blank 6.
  TableModel model{6, {}, Table(7, std::vector<double>(7, 0)), {}};
  std::vector<Table> rows;

  CatDog() {
    const auto wants = [&](int after, int token) {
      model.newest[static_cast<size_t>(after)][static_cast<size_t>(token)] = 4;
    };
    wants(0, 1);  // C -> A
    wants(1, 2);  // A -> T
    wants(3, 4);  // D -> O
    wants(4, 5);  // O -> G
    const auto frame = [](std::vector<std::pair<int, double>> values) {
      std::vector<double> row(7, 0);
      row[6] = 1;  // blank unless the frame offers more
      for (const auto& [token, value] : values) row[static_cast<size_t>(token)] = value;
      return row;
    };
    // A frame offers tokens with 2, which win alone, and with 0, which win only after the
    // predecessor that adds 4.
    const double never = -9;
    const std::vector<double> silent = {never, never, never, never, never, never, 1};
    rows = {{frame({{0, 2}, {1, never}}), silent, frame({{0, never}, {1, 0}, {2, 0}}), silent},
            {silent, frame({{3, 2}, {4, 0}, {5, 0}}), silent}};
    // C and D come only at the start, because they lose after any token.
    for (size_t after = 0; after < 6; ++after) model.newest[after][0] = model.newest[after][3] = -9;
  }
};

TEST(CatDog, FrameLoopingCounts) {
  const CatDog c;
  for (const auto& [k, evaluations] : {std::pair{3, 9}, std::pair{5, 10}}) {
    const Result r = run("frame_looping", {{"max_symbols", k}}, c.model, c.rows);
    EXPECT_EQ(r.hypotheses[0].tokens, (Ints{0, 1, 2}));
    EXPECT_EQ(r.hypotheses[0].frames, (Ints{0, 2, 2}));
    EXPECT_EQ(r.hypotheses[1].tokens, (Ints{3, 4, 5}));
    EXPECT_EQ(r.hypotheses[1].frames, (Ints{1, 1, 1}));
    EXPECT_EQ(r.counters.at("joint_calls"), evaluations);
    EXPECT_EQ(r.counters.at("pred_calls"), evaluations);
  }
}

TEST(CatDog, LabelLoopingCounts) {
  const CatDog c;
  for (const int k : {3, 5}) {
    const Result r = run("label_looping", {{"max_symbols", k}}, c.model, c.rows);
    EXPECT_EQ(r.hypotheses[0].tokens, (Ints{0, 1, 2}));
    EXPECT_EQ(r.hypotheses[1].frames, (Ints{1, 1, 1}));
    EXPECT_EQ(r.counters.at("outer_iters"), 4);
    EXPECT_EQ(r.counters.at("inner_iters"), 4);
    EXPECT_EQ(r.counters.at("joint_calls"), 8);
    EXPECT_EQ(r.counters.at("pred_calls"), 5);
    EXPECT_EQ(r.counters.at("host_reads"), 1 + 2 * 4 + 4);
  }
}

TEST(CatDog, CountsOfTheRowsThatWereNeeded) {
  const CatDog c;
  for (const int k : {3, 5}) {
    for (const char* name : {"frame_looping", "label_looping"}) {
      const nlohmann::json options = {{"max_symbols", k}, {"count_rows", true}};
      const Counters counts = run(name, options, c.model, c.rows).counters;
      // Row 0 decides C - - A T - -, and row 1 decides - D O G - -. With k = 3, row 1 lacks the
      // first blank after G.
      EXPECT_EQ(counts.at("joint_rows_needed"), k == 3 ? 12 : 13) << name;
      EXPECT_EQ(counts.at("pred_rows_needed"), 2 + 6) << name;
      EXPECT_EQ(counts.at("joint_rows"), 2 * counts.at("joint_calls")) << name;
      EXPECT_EQ(counts.at("pred_rows"), 2 * counts.at("pred_calls")) << name;
    }
    EXPECT_FALSE(run("label_looping", {}, c.model, c.rows).counters.contains("joint_rows_needed"));
  }
}

/// In a batch of one, each evaluation is needed, because no other row causes any.
TEST(CatDog, AnUtteranceAloneWastesNoJointCall) {
  const CatDog c;
  for (const char* name : {"frame_looping", "label_looping"}) {
    for (const Table& row : c.rows) {
      const Counters counts = run(name, {{"count_rows", true}}, c.model, {row}).counters;
      EXPECT_EQ(counts.at("joint_rows_needed"), counts.at("joint_rows")) << name;
    }
  }
}

TEST(CatDog, StepReplayCounts) {
  const CatDog c;
  for (const int k : {3, 5}) {
    const Result r = run("step_replay", {{"max_symbols", k}}, c.model, c.rows);
    EXPECT_EQ(r.hypotheses[0].frames, (Ints{0, 2, 2}));
    EXPECT_EQ(r.hypotheses[1].tokens, (Ints{3, 4, 5}));
    // Row 0 decides C - - A T - -, and row 1 decides - D O G -. With k = 3, no blank follows G,
    // which is the third token of its frame.
    EXPECT_EQ(r.counters.at("joint_calls"), 7);
    EXPECT_EQ(r.counters.at("joint_rows"), 14);
    EXPECT_EQ(r.counters.at("pred_calls"), 1 + 5);
  }
}

TEST(CatDog, AWindowOfFourFramesNeedsFourJointCallsPerRow) {
  const CatDog c;
  for (const Table& row : c.rows) {
    EXPECT_EQ(run("label_looping", {{"window", 4}, {"max_symbols", 3}}, c.model, {row})
                  .counters.at("joint_calls"),
              4);
  }
}

TEST(RnntTable, TokensFramesAndScores) {
  const TableModel model{3, {}, {{-2, 0, -2, 3}, {0, -1, 3, -1}, {3, 0, 0, 0}, {0, 1, -2, 0}}, {}};
  const std::vector<Table> rows = {
      {{1, 2, 3, 0}, {1, 1, 1, -1}, {-2, -1, 2, 1}, {-1, 0, 3, 2}, {3, 0, 2, -1}},
      {{-2, -1, -2, -1}, {0, -2, 2, 3}, {-2, -1, -2, 2}}};
  struct Expected {
    int k;
    Ints tokens0, frames0;
    float score0;
    Ints tokens1, frames1;
    float score1;
    int64_t evaluations, outer, inner;
  };
  const std::vector<Expected> table = {
      {1, {1, 2, 2, 2, 0}, {0, 1, 2, 3, 4}, 18, {1, 2}, {0, 1}, 5, 5, 5, 0},
      {2, {1, 2, 0}, {0, 0, 1}, 13, {1, 2, 0}, {0, 0, 1}, 4, 7, 4, 3},
      {3, {1, 2, 0}, {0, 0, 0}, 13, {1, 2, 0}, {0, 0, 0}, 2, 7, 4, 3},
      {10, {1, 2, 0}, {0, 0, 0}, 13, {1, 2, 0}, {0, 0, 0}, 2, 8, 4, 4}};
  for (const Expected& e : table) {
    const nlohmann::json options = {{"max_symbols", e.k}};
    const Result frame = run("frame_looping", options, model, rows);
    const Result label = run("label_looping", options, model, rows);
    const Result step = run("step_replay", options, model, rows);
    for (const Result* r : {&frame, &label, &step}) {
      EXPECT_EQ(r->hypotheses[0], (Hypothesis{e.tokens0, e.frames0, {}, e.score0, false})) << e.k;
      EXPECT_EQ(r->hypotheses[1], (Hypothesis{e.tokens1, e.frames1, {}, e.score1, false})) << e.k;
    }
    EXPECT_EQ(frame.counters.at("joint_calls"), e.evaluations) << e.k;
    EXPECT_EQ(label.counters.at("outer_iters"), e.outer) << e.k;
    EXPECT_EQ(label.counters.at("inner_iters"), e.inner) << e.k;
  }
}

struct TdtTable {
  TableModel model{
      2, {0, 1, 2}, {{-1, 2, 1, 1, 3, -1}, {1, -2, -2, -2, 1, 3}, {-2, 3, 0, 1, -2, 0}}, {}};
  std::vector<Table> rows = {
      {{0, 0, 0, -1, -1, -2},
       {0, 1, 3, 2, -1, -1},
       {2, 3, 4, 2, -2, 0},
       {-2, 1, 0, -1, 2, 1},
       {-1, 0, 1, -2, -2, 2},
       {0, 2, 2, -1, -1, -1}},
      {{-2, -2, 0, 3, 2, 1}, {2, 3, 3, -2, -2, 3}, {3, -1, 4, 0, -2, -2}, {2, 1, -1, 2, -2, 0}}};
};

TEST(TdtTable, TokensFramesDurationsAndScores) {
  const TdtTable t;
  const Hypothesis row0_k1{{1, 0, 1, 0}, {0, 1, 3, 4}, {0, 2, 1, 2}, 7, false};
  const Hypothesis row1_k1{{1, 0, 1}, {0, 1, 3}, {0, 2, 0}, 7, false};
  const Hypothesis row0{{1, 0, 1, 0, 1, 0}, {0, 0, 2, 2, 4, 5}, {0, 2, 0, 2, 1, 2}, 15, false};
  const Hypothesis row1{{1, 0, 1, 0}, {0, 0, 3, 3}, {0, 2, 0, 2}, 6, false};
  for (const char* name : {"frame_looping", "label_looping", "step_replay"}) {
    EXPECT_EQ(run(name, {{"max_symbols", 1}}, t.model, t.rows).hypotheses,
              (std::vector{row0_k1, row1_k1}))
        << name;
    for (const int k : {2, 3, 10}) {
      EXPECT_EQ(run(name, {{"max_symbols", k}}, t.model, t.rows).hypotheses,
                (std::vector{row0, row1}))
          << name << k;
    }
  }
  const Counters counters = run("label_looping", {{"max_symbols", 2}}, t.model, t.rows).counters;
  EXPECT_EQ(counters.at("outer_iters"), 6);
  EXPECT_EQ(counters.at("inner_iters"), 1);
}

TEST(TdtTable, MinimumDurationDependsOnBatchMates) {
  const TdtTable t;
  const auto both = run("tdt_min_duration", {{"max_symbols", 2}}, t.model, t.rows).hypotheses;
  EXPECT_EQ(both[0].tokens, (Ints{1, 0, 1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(both[0].frames, (Ints{0, 0, 2, 2, 3, 3, 5, 5}));
}

/// A finished row goes on with its last frame, and a row without frames does not count.
TEST(TdtTable, MinimumDurationDependsOnNoPadding) {
  const TdtTable t;
  std::vector<Table> with_empty_row = t.rows;
  with_empty_row.emplace_back();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [k, frames] : {std::pair{2, Ints{0, 0, 2, 2, 3, 3, 5, 5}},
                                  std::pair{3, Ints{0, 0, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5}}}) {
    for (const char* reads : {"flag", "rows"}) {
      const auto decoder =
          make_decoder("tdt_min_duration", {{"max_symbols", k}, {"host_reads", reads}}, "");
      decoder->prepare(test::build(t.model), {});
      for (const auto& rows : {t.rows, with_empty_row}) {
        // The last columns of a frame are the logits of the durations 0, 1 and 2.
        for (const auto& padding : std::vector<std::vector<float>>{{nan, nan, nan, nan, nan, nan},
                                                                   {0, 0, 0, 0, 0, 0},
                                                                   {0, 0, 0, 0, 9, 0},
                                                                   {0, 0, 0, 0, 0, 9}}) {
          EncodedBatch batch = test::batch_of(rows, t.model.columns());
          batch.frames = at::where(batch.frames.isnan(), at::tensor(padding), batch.frames);
          const auto found = decoder->decode(batch).to_host();
          EXPECT_EQ(found[0].frames, frames) << k << " " << reads << " " << rows.size() << " "
                                             << ::testing::PrintToString(padding);
          EXPECT_FALSE(found[0].nan || found[1].nan);
          EXPECT_TRUE(rows.size() == 2 || found[2].tokens.empty());
        }
      }
    }
  }
}

TEST(Ties, TheLowestTokenAndDurationWinAndBlankLoses) {
  // With V = 2 and blank 2, the logits are [5, 1, 5]. Durations are all equal, so index 0 wins.
  const TableModel rnnt{2, {}, Table(3, std::vector<double>(3, 0)), {}};
  const TableModel tdt{1, {2, 1}, Table(2, std::vector<double>(4, 0)), {}};
  for (const char* name : {"frame_looping", "label_looping", "step_replay"}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto decoder = make_decoder(name, {{"max_symbols", 1}}, "");
      decoder->prepare(test::build(rnnt, at::kCPU, dtype), {});
      const auto h = decoder->decode(test::batch_of({{{5, 1, 5}}}, 3, at::kCPU, dtype)).to_host();
      EXPECT_EQ(h[0].tokens, Ints{0});
    }
    const auto h = run(name, {}, tdt, {{{0, 0, 0, 0}, {0, 0, 0, 0}}}).hypotheses;
    EXPECT_EQ(h[0].tokens, Ints{0});
    EXPECT_EQ(h[0].durations, Ints{2});
  }
}

TEST(CornerCases, AllBlankNeverBlankEmptyAndSingleFrame) {
  TableModel model{1, {}, Table(2, std::vector<double>(2, 0)), {}};
  const Table blank(4, {0, 1}), token(4, {1, 0});
  for (const char* name : {"frame_looping", "label_looping", "step_replay"}) {
    const auto h = run(name, {{"max_symbols", 3}}, model, {blank, token, {}, {{1, 0}}}).hypotheses;
    EXPECT_TRUE(h[0].tokens.empty());
    EXPECT_EQ(h[0].score, 0);
    EXPECT_EQ(h[1].tokens.size(), 12u);
    EXPECT_EQ(h[1].frames, (Ints{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
    EXPECT_TRUE(h[2].tokens.empty());
    EXPECT_EQ(h[3].frames, (Ints{0, 0, 0}));
    const auto none = run(name, {}, model, {{}, {}}).hypotheses;
    EXPECT_TRUE(none[0].tokens.empty() && none[1].tokens.empty());
  }
}

TEST(CornerCases, NanInAValidFrameMarksTheRowOnly) {
  TableModel model{1, {}, Table(2, std::vector<double>(2, 0)), {}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Table> rows = {{{0, 1}, {nan, 1}, {1, 0}}, {{1, 0}, {0, 1}}};
  for (const nlohmann::json& options :
       {nlohmann::json::object(), nlohmann::json{{"max_symbols", 2}}}) {
    for (const char* name : {"frame_looping", "label_looping", "step_replay"}) {
      const auto h = run(name, options, model, rows).hypotheses;
      EXPECT_TRUE(h[0].nan) << name;
      EXPECT_FALSE(h[1].nan) << name;
    }
  }
  EXPECT_TRUE(run("label_looping", {{"window", 4}}, model, rows).hypotheses[0].nan);
}

/// The logits are finite, but their sum is not. Such a row fails alone, as one with a NaN does.
TEST(CornerCases, AnInfiniteScoreMarksTheRowOnly) {
  const TableModel rnnt{1, {}, Table(2, std::vector<double>(2, 0)), {}};
  const TableModel tdt{1, {0, 1}, Table(2, std::vector<double>(4, 0)), {}};
  for (const TableModel& model : {rnnt, tdt}) {
    std::vector<Table> rows = {
        {{2e38, 1}, {2e38, 1}}, {{1, 0}, {0, 1}}, {{-2e38, -3e38}, {-2e38, -3e38}}, {{2e38, 1}}};
    for (Table& row : rows)
      for (auto& frame : row) frame.resize(static_cast<size_t>(model.columns()), 0);
    std::vector<std::pair<std::string, nlohmann::json>> arms = {
        {"frame_looping", {{"host_reads", "flag"}}},
        {"frame_looping", {{"host_reads", "rows"}}},
        {"label_looping", {{"window", 1}}},
        {"label_looping", {{"window", 4}}},
        {"step_replay", nlohmann::json::object()}};
    if (!model.durations.empty()) arms.emplace_back("tdt_min_duration", nlohmann::json::object());
    for (auto& [name, options] : arms) {
      options["max_symbols"] = 1;
      const auto found = run(name, options, model, rows).hypotheses;
      const std::vector<bool> marks = {found[0].nan, found[1].nan, found[2].nan, found[3].nan};
      EXPECT_EQ(marks, (std::vector<bool>{true, false, true, false})) << name << options;
      EXPECT_EQ(found[1].score, 1);
      EXPECT_EQ(found[3].tokens, Ints{0});
    }
  }
}

TEST(CtcGreedy, CollapsesAndIgnoresPadding) {
  // The labels are [2, 2, blank, 2, 1, 1, blank], where blank is 3, and NaN follows as padding.
  at::Tensor logits = at::zeros({2, 9, 4});
  const std::vector<int64_t> best = {2, 2, 3, 2, 1, 1, 3};
  for (size_t t = 0; t < best.size(); ++t) logits[0][static_cast<int64_t>(t)][best[t]] = 5;
  logits[0].narrow(0, 7, 2).fill_(std::numeric_limits<float>::quiet_NaN());
  logits[1].fill_(std::numeric_limits<float>::quiet_NaN());
  const auto h = CtcGreedy::collapse(logits, at::tensor({7, 0}, at::kLong)).to_host();
  EXPECT_EQ(h[0].tokens, (Ints{2, 2, 1}));
  EXPECT_EQ(h[0].frames, (Ints{0, 3, 4}));
  EXPECT_FALSE(h[0].nan);
  EXPECT_NEAR(h[0].score, 7 * (5 - std::log(std::exp(5.0) + 3)), 1e-5);
  EXPECT_EQ(h[1], Hypothesis{});
}

TEST(CtcGreedy, ANanInAValidFrameIsReported) {
  at::Tensor logits = at::zeros({1, 2, 3});
  logits[0][1][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(CtcGreedy::collapse(logits, at::tensor({2}, at::kLong)).to_host()[0].nan);
}

}  // namespace
}  // namespace rtfx
