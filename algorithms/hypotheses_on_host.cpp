// Hypotheses as values on the host, where n-best lists are ranked by risk.
#include "algorithms/hypotheses.h"
#include "algorithms/log_zero.h"
#include "algorithms/nbest_risk.h"

namespace rtfx {

std::vector<Hypothesis> Hypotheses::to_host() const {
  HostLists lists(*this);
  lists.bring();
  std::vector<Hypothesis> result;
  for (int64_t b = 0; b < lists.batch(); ++b) {
    const auto row = static_cast<size_t>(b);
    Hypothesis best = lists.entry(b, 0);
    if (words && !best.nan) best.words = words->rows[row];
    for (int64_t n = 0; nbest.defined() && n < lists.size(); ++n) {
      if (lists.score(b, n) == kLogZero) continue;
      best.nbest.push_back(lists.entry(b, n));
      if (words) best.nbest.back().words = words->lists[row][static_cast<size_t>(n)];
    }
    if (risk) risk->sort(best);
    result.push_back(std::move(best));
  }
  return result;
}

}  // namespace rtfx
