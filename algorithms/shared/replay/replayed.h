// The findings of a replay (replay.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace rtfx {

/// A decision that is not the best one.
struct Deviation {
  std::string kind;  // "label", "duration", "score", or "path" if none leads there
  int64_t frame = 0;
  int64_t chosen = 0, best = 0;  // labels, blank included; frames for a duration; 0 for the others
  double gap = 0, bound = 0;     // logits; for a score, its distance from the possible scores
};

/// Returns how far float32 sums of a path's scores may lie apart beyond the variances of its terms.
/// Sums of tensor cores, which truncate, err to one side, so that their errors add up. `magnitudes`
/// is the sum of the scores' absolute values, since logits of both signs can cancel in the score.
/// Log-probabilities are all negative, so it is the absolute value of their sum. Found on an H200:
/// up to 2^-15.7 of it in fp32 (three TF32 products), and 7e-6 for log-probabilities near 0.
inline double rounding_of_score(double magnitudes) { return std::max(1.0, magnitudes) * 0x1p-15; }

/// The findings for one hypothesis.
struct Replayed {
  int64_t decisions = 0, beyond = 0;  // decisions compared, and those not within rounding
  double worst = 0;                   // largest gap / bound
  std::optional<Deviation> first;     // the first decision that is not within rounding
  double least_score = 0, most_score = 0, score_bound = 0;  // possible scores, and their rounding
  bool has_bounds = true;                                   // false: the score may be any

  bool within() const { return beyond == 0; }
  /// Adds a decision.
  void add(const Deviation& decision);
  /// Returns these findings with the check of `score` as one more decision, if there are bounds.
  Replayed with_score(double score) const;
};

}  // namespace rtfx
