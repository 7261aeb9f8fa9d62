// Tests forced alignment through CTC emissions. It equals torchaudio's and the best of all paths,
// in blocks of any size.
#include "algorithms/shared/alignment/ctc_alignment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/checkpoint/tensor_data.h"
#include "tests/support/alignment_cases.h"

namespace rtfx {
namespace {

/// Returns the label of each frame of an alignment.
std::vector<int32_t> path_of(const Alignment& found, int64_t frames, int32_t blank) {
  std::vector<int32_t> path(static_cast<size_t>(frames), blank);
  for (size_t i = 0; i < found.hypothesis.tokens.size(); ++i) {
    for (int32_t k = 0; k < found.evidence.runs[i]; ++k)
      path[static_cast<size_t>(found.hypothesis.frames[i] + k)] = found.hypothesis.tokens[i];
  }
  return path;
}

std::vector<int32_t> collapsed(const std::vector<int32_t>& path, int32_t blank) {
  std::vector<int32_t> tokens;
  for (size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) tokens.push_back(path[t]);
  return tokens;
}

double score_of(const at::Tensor& emissions, const std::vector<int32_t>& path) {
  double sum = 0;
  for (size_t t = 0; t < path.size(); ++t)
    sum += emissions[static_cast<int64_t>(t)][path[t]].item<float>();
  return sum;
}

/// Returns the emissions of tests/golden/make_forced_align.py.
at::Tensor congruential(uint32_t seed, int64_t frames, int64_t labels) {
  at::Tensor emissions = at::empty({frames, labels});
  auto* const values = emissions.mutable_data_ptr<float>();
  uint32_t state = seed;
  for (int64_t i = 0; i < frames * labels; ++i) {
    state = 1664525 * state + 1013904223;
    values[i] = -static_cast<float>(state >> 10) / (1 << 18);
  }
  return emissions;
}

TEST(CtcAlignment, EqualsTorchaudio) {
  std::ifstream file("tests/golden/data/forced_align.json");
  ASSERT_TRUE(file.is_open()) << "run the test in the folder of the repository";
  const nlohmann::json golden = nlohmann::json::parse(file);
  ASSERT_EQ(golden["random"].size(), 6);
  for (const nlohmann::json& one : golden["random"]) {
    const int64_t frames = one["frames"], labels = one["labels"];
    const std::vector<int32_t> tokens = one["tokens"];
    const at::Tensor emissions = congruential(one["seed"], frames, labels);
    const Alignment found = align_ctc(emissions_in_memory(emissions), tokens);
    EXPECT_EQ(path_of(found, frames, static_cast<int32_t>(labels) - 1),
              one["path"].get<std::vector<int32_t>>())
        << "seed " << one["seed"];
    EXPECT_NEAR(found.hypothesis.score, one["score"].get<double>(), 1e-3);
  }
}

TEST(CtcAlignment, IsTheBestOfAllPaths) {
  std::mt19937 random(1);
  at::manual_seed(1);
  constexpr int64_t kFrames = 6, kLabels = 3;
  for (int round = 0; round < 20; ++round) {
    const at::Tensor emissions = at::randn({kFrames, kLabels}).log_softmax(-1);
    const std::vector<int32_t> text = test::random_text(random, kFrames, kLabels, 4);
    double best = -INFINITY;
    std::vector<int32_t> best_path;
    for (int code = 0; code < 729; ++code) {  // kLabels ^ kFrames
      std::vector<int32_t> path;
      for (int64_t t = 0, rest = code; t < kFrames; ++t, rest /= kLabels)
        path.push_back(static_cast<int32_t>(rest % kLabels));
      if (collapsed(path, kLabels - 1) != text) continue;
      const double score = score_of(emissions, path);
      if (score > best) {
        best = score;
        best_path = path;
      }
    }
    const Alignment found = align_ctc(emissions_in_memory(emissions), text);
    EXPECT_EQ(path_of(found, kFrames, kLabels - 1), best_path) << "round " << round;
    EXPECT_NEAR(found.hypothesis.score, best, 1e-4);
    EXPECT_FALSE(found.hypothesis.nan);
  }
}

TEST(CtcAlignment, ConfidenceIsTheMeanProbabilityOfTheRun) {
  // The likeliest labels are blank, token 0 twice, blank, token 1.
  at::Tensor emissions = at::full({5, 3}, 0.05).log();
  for (const auto& [t, label, p] : std::vector<std::tuple<int, int, double>>{
           {0, 2, .9}, {1, 0, .8}, {2, 0, .6}, {3, 2, .9}, {4, 1, .7}})
    emissions[t][label] = std::log(p);
  const std::vector<int32_t> text = {0, 1};
  const Alignment found = align_ctc(emissions_in_memory(emissions), text);
  EXPECT_EQ(found.hypothesis.frames, (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(found.evidence.runs, (std::vector<int32_t>{2, 1}));
  EXPECT_NEAR(found.evidence.confidence[0], 0.7, 1e-6);
  EXPECT_NEAR(found.evidence.confidence[1], 0.7, 1e-6);
}

TEST(CtcAlignment, ATieOfTwoWaysIntoAStateIsNoReasonToStay) {
  // The way through blank and the direct way both reach the second token with score -1. In this
  // tie, torchaudio stays in the token, which costs -5.
  const at::Tensor emissions =
      at::tensor({0.0F, -10.0F, -10.0F, -1.0F, -5.0F, -1.0F, -10.0F, 0.0F, -10.0F}).view({3, 3});
  const std::vector<int32_t> text = {0, 1};
  const Alignment found = align_ctc(emissions_in_memory(emissions), text);
  EXPECT_EQ(found.hypothesis.score, -1);
  EXPECT_EQ(path_of(found, 3, 2), (std::vector<int32_t>{0, 2, 1}));
}

TEST(CtcAlignment, OfTheGreedyTextIsTheGreedyPath) {
  at::manual_seed(2);
  for (int round = 0; round < 10; ++round) {
    const at::Tensor emissions = (2 * at::randn({50, 8})).log_softmax(-1);
    const at::Tensor best = emissions.argmax(1).to(at::kInt).contiguous();
    const std::vector<int32_t> path(data_of<int32_t>(best), data_of<int32_t>(best) + best.numel());
    const Alignment found = align_ctc(emissions_in_memory(emissions), collapsed(path, 7));
    EXPECT_EQ(path_of(found, 50, 7), path);
  }
}

TEST(CtcAlignment, BlocksOfFramesChangeNothing) {
  std::mt19937 random(3);
  at::manual_seed(3);
  const at::Tensor emissions = at::randn({101, 9}).log_softmax(-1);
  const std::vector<int32_t> text = test::random_text(random, 60, 9, 60);
  const Alignment whole = align_ctc(emissions_in_memory(emissions), text);
  for (const int64_t bytes : {1, 1000, 5000}) {
    int64_t largest = 0;
    const EmissionSource source{101, 9, [&](int64_t first, int64_t count) {
                                  largest = std::max(largest, count);
                                  return emissions.narrow(0, first, count);
                                }};
    const Alignment found = align_ctc(source, text, bytes);
    EXPECT_LT(largest, 101) << bytes << " bytes are no block of all frames";
    EXPECT_EQ(found.hypothesis, whole.hypothesis);
    EXPECT_EQ(found.evidence.runs, whole.evidence.runs);
    EXPECT_EQ(found.evidence.confidence, whole.evidence.confidence);
  }
}

TEST(CtcAlignment, RowsOfABatchAreAlignedByThemselves) {
  std::mt19937 random(4);
  at::manual_seed(4);
  const test::AlignmentBatch batch = test::random_alignments(random, 7, 40, 6, 20);
  const auto found = align_ctc_batch(batch.emissions, batch.lengths, batch.texts);
  ASSERT_EQ(found.size(), 7);
  for (size_t b = 0; b < found.size(); ++b) {
    const at::Tensor own = batch.emissions[static_cast<int64_t>(b)].narrow(0, 0, batch.lengths[b]);
    const Alignment alone = align_ctc(emissions_in_memory(own), batch.texts[b]);
    EXPECT_EQ(found[b].hypothesis, alone.hypothesis) << "row " << b;
    EXPECT_FALSE(found[b].hypothesis.nan);
  }
  EXPECT_TRUE(found[1].hypothesis.tokens.empty());
  // Row 2 needs all of its frames, so it has no blank except between equal tokens.
  int64_t said = 0;
  for (const int32_t run : found[2].evidence.runs) said += run;
  EXPECT_EQ(said, std::ssize(batch.texts[2]));
}

TEST(CtcAlignment, NanIsTold) {
  at::Tensor emissions = at::zeros({4, 3});
  emissions[2].fill_(std::nan(""));
  const std::vector<int32_t> text = {0, 1};
  EXPECT_TRUE(align_ctc(emissions_in_memory(emissions), text).hypothesis.nan);
}

TEST(CtcAlignment, LeastFrames) {
  EXPECT_EQ(least_ctc_frames(std::vector<int32_t>{}), 0);
  EXPECT_EQ(least_ctc_frames(std::vector<int32_t>{4, 4, 1, 4}), 5);
}

}  // namespace
}  // namespace rtfx
