// Language model fusion as the plain searches of tests compute it, and the decoder options for the
// same fusion.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/support/beam_cases.h"
#include "tests/support/small_lm.h"

namespace rtfx::test {

struct PlainFusion {
  bool full;   // blank_scoring is lm_weighted_full if true, else no_score
  bool early;  // early pruning, which chooses labels by acoustic scores
  static constexpr double kAlpha = 0.7, kBeta = 0.2, kEps = 1e-2;

  /// Returns the decoder options, {"lm": ...}.
  nlohmann::json options(const SmallLm& lm) const {
    return {{"lm",
             {{"path", lm.path()},
              {"alpha", kAlpha},
              {"beta", kBeta},
              {"pruning", early ? "early" : "late"},
              {"blank_scoring", full ? "lm_weighted_full" : "no_score"},
              {"blank_eps", kEps}}}};
  }

  /// Returns the scores of `next` fused with those of `lm`, which must outlive the result. Labels
  /// below `vocabulary` are tokens, and the last label is blank.
  NextOf fused(const NextOf& next, const SmallLm& lm, int32_t vocabulary) const {
    return [&lm, next, vocabulary, full = full](size_t frame, const Text& text) {
      Next n = next(frame, text);
      double& blank = n.labels.back();
      const double rest = kAlpha * std::log1p(-std::min(std::exp(blank), 1 - kEps));
      for (int32_t k = 0; k < vocabulary; ++k)
        n.labels[static_cast<size_t>(k)] += kAlpha * lm.score(text, k) + kBeta + (full ? rest : 0);
      if (full) blank *= 1 + kAlpha;
      return n;
    };
  }
};

}  // namespace rtfx::test
