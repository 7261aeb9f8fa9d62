// Tests shallow fusion on the worked example, against a scalar reference, and where it must change
// nothing.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "algorithms/shared/ngram_lm/fusion.h"

namespace rtfx {
namespace {

LmOptions options(double alpha, const std::string& blank_scoring, double beta = 0) {
  LmOptions o;
  o.alpha = alpha;
  o.beta = beta;
  o.blank_scoring = blank_scoring;
  return o;
}

TEST(Fusion, WorkedExample) {
  const at::Tensor logprobs = at::tensor({.45, .2, .1, .25}, at::kFloat).log();
  const at::Tensor lm = at::tensor({.1, .6, .3}, at::kFloat).log();
  const auto expect = [&](const char* blank_scoring, const std::vector<double>& expected) {
    const at::Tensor fused = fuse(logprobs, lm, options(0.5, blank_scoring));
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(fused[static_cast<int64_t>(i)].item<double>(), expected[i], 1e-4);
  };
  expect("no_score", {-1.9498, -1.8649, -2.9046, -1.3863});
  expect("lm_weighted_full", {-2.0936, -2.0087, -3.0484, -2.0794});
}

/// Random scores of 1000 rows. In every fourth row, p(blank) is above 0.99.
struct Rows {
  static constexpr int64_t kRows = 1000, kTokens = 11;
  at::Tensor logprobs, lm;
  Rows() {
    at::manual_seed(9);
    at::Tensor logits = at::randn({kRows, kTokens + 1}) * 3;
    const at::Tensor every_fourth = at::arange(kRows) % 4 == 0;
    logits.select(1, kTokens).add_(every_fourth * 12);
    logprobs = logits.log_softmax(1);
    lm = (at::randn({kRows, kTokens}) * 2).log_softmax(1);
  }
};

double reference(const LmOptions& o, double logprob, double blank, double lm, bool is_blank) {
  const bool full = o.blank_scoring == "lm_weighted_full";
  if (is_blank) return full ? (1 + o.alpha) * blank : blank;
  const double rest = full ? o.alpha * std::log(1 - std::min(std::exp(blank), 1 - o.blank_eps)) : 0;
  return logprob + rest + o.alpha * lm + o.beta;
}

TEST(Fusion, EqualsTheScalarReference) {
  const Rows rows;
  EXPECT_GT((rows.logprobs.select(1, Rows::kTokens).exp() > 0.99).sum().item<int>(), 100);
  for (const char* blank_scoring : {"no_score", "lm_weighted_full"}) {
    for (const double eps : {1e-2, 1e-6}) {
      LmOptions o = options(0.7, blank_scoring, -0.25);
      o.blank_eps = eps;
      const at::Tensor fused = fuse(rows.logprobs, rows.lm, o);
      for (int64_t r = 0; r < Rows::kRows; ++r) {
        const auto at_label = [&](const at::Tensor& t, int64_t k) {
          return t[r][k].item<double>();
        };
        const double blank = at_label(rows.logprobs, Rows::kTokens);
        for (int64_t k = 0; k <= Rows::kTokens; ++k) {
          const bool is_blank = k == Rows::kTokens;
          const double expected = reference(o, at_label(rows.logprobs, k), blank,
                                            is_blank ? 0 : at_label(rows.lm, k), is_blank);
          ASSERT_NEAR(at_label(fused, k), expected, 2e-5)
              << blank_scoring << " row " << r << " label " << k;
        }
      }
    }
  }
}

TEST(Fusion, WithoutWeightNothingChanges) {
  Rows rows;
  rows.lm.select(1, 3).fill_(-std::numeric_limits<float>::infinity());  // an unknown token
  for (const char* blank_scoring : {"no_score", "lm_weighted_full"}) {
    EXPECT_TRUE(at::equal(fuse(rows.logprobs, rows.lm, options(0, blank_scoring)), rows.logprobs));
    const at::Tensor bonus = fuse(rows.logprobs, rows.lm, options(0, blank_scoring, 1));
    EXPECT_TRUE(at::allclose(bonus.narrow(1, 0, Rows::kTokens),
                             rows.logprobs.narrow(1, 0, Rows::kTokens) + 1));
  }
}

}  // namespace
}  // namespace rtfx
