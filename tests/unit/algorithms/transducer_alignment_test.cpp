// Tests forced alignment through a transducer's lattice against the best of all paths, with and
// without a band.
#include "algorithms/shared/alignment/transducer_alignment.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "algorithms/decoder.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

struct Kind {
  std::vector<int64_t> durations;  // empty for RNN-T
};

class TransducerAlignment : public testing::TestWithParam<Kind> {
 protected:
  TransducerAlignment() {
    ModelConfig config = test::small_config();
    config.durations = GetParam().durations;
    config.vocabulary = 5;
    model = test::random_model(config, 7);
    transducer.emplace(model, Transducer::Options());
  }

  bool is_tdt() const { return !GetParam().durations.empty(); }

  at::Tensor random_frames(int64_t count) const {
    return 3 * at::randn({count, model->config.encoder.frame_width()});
  }

  std::shared_ptr<const AcousticModel> model;
  std::optional<Transducer> transducer;
};

/// Enumerates all paths through the lattice by recursion.
struct AllPaths {
  const Transducer& transducer;
  at::Tensor frames;
  std::vector<int32_t> tokens;

  double best = -std::numeric_limits<double>::infinity();
  std::vector<int32_t> best_frames = {}, best_durations = {};
  std::vector<int32_t> said_at = {}, lasted = {};
  std::vector<std::vector<std::vector<double>>> logprobs = {};  // [T][U + 1][V + 1 + D]

  void search() {
    const at::Tensor encoded = transducer.encode(frames);
    for (int64_t t = 0; t < frames.size(0); ++t) {
      auto& row = logprobs.emplace_back();
      Transducer::Prediction prediction = transducer.start(1);
      for (size_t u = 0; u <= tokens.size(); ++u) {
        const LogProbs found = transducer.log_probs(encoded[t].unsqueeze(0), prediction.output, 1);
        std::vector<double>& cell = row.emplace_back();
        for (const at::Tensor& part : {found.labels, found.durations}) {
          for (int64_t i = 0; part.defined() && i < part.size(1); ++i)
            cell.push_back(part[0][i].item<float>());
        }
        if (u < tokens.size())
          prediction =
              transducer.predict(at::tensor({int64_t{tokens[u]}}, at::kLong), prediction.state);
      }
    }
    walk(0, 0, 0);
  }

  void walk(int64_t t, size_t u, double score) {
    if (t >= frames.size(0)) {
      if (u == tokens.size() && score > best) {
        best = score;
        best_frames = said_at;
        best_durations = lasted;
      }
      return;
    }
    const std::vector<double>& cell = logprobs[static_cast<size_t>(t)][u];
    const auto blank = static_cast<size_t>(transducer.blank());
    const std::vector<int64_t>& durations = transducer.duration_list();
    const auto token_step = [&](int64_t duration, double logprob) {
      said_at.push_back(static_cast<int32_t>(t));
      lasted.push_back(static_cast<int32_t>(duration));
      walk(t + duration, u + 1, score + logprob);
      said_at.pop_back();
      lasted.pop_back();
    };
    const bool has_next = u < tokens.size();
    if (durations.empty()) {
      walk(t + 1, u, score + cell[blank]);
      if (has_next) token_step(0, cell[static_cast<size_t>(tokens[u])]);
    }
    for (size_t d = 0; d < durations.size(); ++d) {
      const double logprob = cell[blank + 1 + d];
      walk(t + std::max<int64_t>(1, durations[d]), u, score + cell[blank] + logprob);
      if (has_next) token_step(durations[d], cell[static_cast<size_t>(tokens[u])] + logprob);
    }
  }
};

TEST_P(TransducerAlignment, IsTheBestOfAllPaths) {
  at::manual_seed(11);
  std::mt19937 random(11);
  for (int round = 0; round < 8; ++round) {
    const int64_t count = 1 + round % 5;
    std::vector<int32_t> text(static_cast<size_t>(round) % 4);
    for (int32_t& token : text) token = static_cast<int32_t>(random() % 5);
    AllPaths paths{*transducer, random_frames(count), text};
    paths.search();
    const Alignment found =
        align_transducer(*transducer, paths.frames, text, whole_lattice(count, std::ssize(text)));
    EXPECT_NEAR(found.hypothesis.score, paths.best, 1e-4) << "round " << round;
    EXPECT_EQ(found.hypothesis.frames, paths.best_frames) << "round " << round;
    EXPECT_EQ(found.hypothesis.durations, is_tdt() ? paths.best_durations : std::vector<int32_t>{});
    for (size_t i = 0; i < text.size(); ++i) {
      const auto t = static_cast<size_t>(found.hypothesis.frames[i]);
      const double logprob = paths.logprobs[t][i][static_cast<size_t>(text[i])];
      EXPECT_NEAR(found.evidence.confidence[i], std::exp(logprob), 1e-5);
    }
  }
}

TEST_P(TransducerAlignment, ABandHoldsThePathsNearItsGuide) {
  at::manual_seed(12);
  const std::unique_ptr<Decoder> decoder = make_decoder("label_looping", {}, "", model->config);
  decoder->prepare(model, {});
  EncodedBatch batch;
  batch.frames = random_frames(30).unsqueeze(0);
  batch.lengths = at::tensor({int64_t{30}}, at::kLong);
  batch.lengths_host = {30};
  const Hypothesis greedy = decoder->decode(batch).to_host().front();
  ASSERT_FALSE(greedy.tokens.empty());
  const auto tokens = std::ssize(greedy.tokens);
  const Alignment whole =
      align_transducer(*transducer, batch.frames[0], greedy.tokens, whole_lattice(30, tokens));
  int64_t longest = 0;  // duration
  for (const int64_t duration : GetParam().durations) longest = std::max(longest, duration);
  // A band around the greedy path holds that path, but no better one than the whole lattice.
  const LatticeBand narrow = band_around(greedy.frames, 30, 2);
  EXPECT_LT(narrow.nodes(), whole_lattice(30, tokens).nodes());
  const Alignment near = align_transducer(*transducer, batch.frames[0], greedy.tokens, narrow);
  EXPECT_FALSE(near.hypothesis.nan);
  EXPECT_LE(near.hypothesis.score, whole.hypothesis.score);
  for (size_t i = 0; i < greedy.tokens.size(); ++i)
    EXPECT_LE(std::abs(near.hypothesis.frames[i] - greedy.frames[i]), 2 + longest);
  // A band of all frames is the whole lattice.
  const Alignment wide = align_transducer(*transducer, batch.frames[0], greedy.tokens,
                                          band_around(greedy.frames, 30, 30));
  EXPECT_EQ(wide.hypothesis, whole.hypothesis);
}

TEST_P(TransducerAlignment, NanIsTold) {
  at::manual_seed(13);
  at::Tensor frames = random_frames(6);
  frames[3].fill_(std::nan(""));
  const std::vector<int32_t> text = {1, 2};
  EXPECT_TRUE(align_transducer(*transducer, frames, text, whole_lattice(6, 2)).hypothesis.nan);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TransducerAlignment,
                         testing::Values(Kind{}, Kind{{0, 1, 2, 3, 4}}, Kind{{1, 3}}),
                         [](const auto& info) {
                           return info.param.durations.empty()
                                      ? "Rnnt"
                                      : "Tdt" + std::to_string(info.param.durations.size());
                         });

TEST(LatticeBand, HoldsTheNodesNearItsGuide) {
  const std::vector<int32_t> guide = {1, 4};
  const LatticeBand band = band_around(guide, 7, 1);
  EXPECT_EQ(band.first, (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(band.last, (std::vector<int32_t>{1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(band.nodes(), 2 + 2 + 2 + 2 + 2 + 2 + 1);
}

TEST(LatticeBand, AGuideFollowsTheTokensThatASearchFound) {
  Hypothesis found;
  found.tokens = {7, 1, 2, 9, 5};
  found.frames = {0, 10, 20, 25, 40};
  // The search found tokens 1, 2 and 5 of this text. It missed 3 and 4 between them, and 6 behind
  // them.
  const std::vector<int32_t> text = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(guide_from(found, text, 50), (std::vector<int32_t>{10, 20, 26, 33, 40, 45}));
  EXPECT_EQ(guide_from({}, text, 70), (std::vector<int32_t>{10, 20, 30, 40, 50, 60}));
}

}  // namespace
}  // namespace rtfx
