#include "algorithms/shared/replay/replayed.h"

#include <algorithm>

namespace rtfx {

void Replayed::add(const Deviation& decision) {
  ++decisions;
  if (decision.gap <= 0) return;
  worst = std::max(worst, decision.gap / decision.bound);
  if (decision.gap <= decision.bound) return;  // false for a NaN too
  ++beyond;
  if (!first) first = decision;
}

Replayed Replayed::with_score(double score) const {
  Replayed all = *this;
  if (!has_bounds) return all;
  const double gap = std::max(least_score - score, score - most_score);
  all.add({"score", 0, 0, 0, gap, score_bound});
  return all;
}

}  // namespace rtfx
