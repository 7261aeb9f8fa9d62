// Brings hypotheses to the host, where n-best lists are ranked by risk.
#include <fmt/format.h>

#include "algorithms/hypotheses.h"
#include "algorithms/log_zero.h"
#include "algorithms/nbest_risk.h"

namespace rtfx {
namespace {

/// Returns words[index], which belong to row `row`.
template <class Words>
const Words& words_at(const std::vector<Words>& words, int64_t index, int64_t row,
                      const char* name) {
  if (index >= std::ssize(words))
    throw WrongResult(
        row, fmt::format("`{}` has {} entries, not {} or more", name, words.size(), index + 1));
  return words[static_cast<size_t>(index)];
}

}  // namespace

std::vector<Hypothesis> Hypotheses::to_host() const {
  HostLists lists(*this);
  lists.bring();
  std::vector<Hypothesis> result;
  for (int64_t b = 0; b < lists.batch(); ++b) {
    Hypothesis best = lists.entry(b, 0);
    if (words && !best.nan) best.words = words_at(words->rows, b, b, "words.rows");
    for (int64_t n = 0; nbest.defined() && n < lists.size(); ++n) {
      if (lists.score(b, n) == kLogZero) continue;
      best.nbest.push_back(lists.entry(b, n));
      if (!words) continue;
      const auto& of_row = words_at(words->lists, b, b, "words.lists");
      best.nbest.back().words = words_at(of_row, n, b, "words.lists of the row");
    }
    if (risk) risk->sort(best);
    result.push_back(std::move(best));
  }
  return result;
}

}  // namespace rtfx
