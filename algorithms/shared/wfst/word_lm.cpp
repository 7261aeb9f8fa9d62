#include "algorithms/shared/wfst/word_lm.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace rtfx {

WordLm::WordLm(const TransducerArcs& grammar, int32_t backoff)
    : start_(grammar.start),
      begin_(static_cast<size_t>(grammar.states) + 1),
      backoff_(static_cast<size_t>(grammar.states), Step{-1, 0}),
      final_cost_(static_cast<size_t>(grammar.states), std::numeric_limits<float>::infinity()) {
  std::vector<TransducerArcs::Arc> words;
  for (const auto& arc : grammar.arcs) {
    const auto from = static_cast<size_t>(arc.from);
    if (arc.input == backoff) {
      backoff_[from] = {arc.to, arc.cost};
    } else {
      words.push_back(arc);
      ++begin_[from + 1];
    }
  }
  for (size_t s = 1; s < begin_.size(); ++s) begin_[s] += begin_[s - 1];
  std::sort(words.begin(), words.end(), [](const auto& a, const auto& b) {
    return std::tie(a.from, a.input) < std::tie(b.from, b.input);
  });
  for (const auto& arc : words) arcs_.push_back({arc.input, arc.to, arc.cost});
  for (const auto& [state, cost] : grammar.finals) final_cost_[static_cast<size_t>(state)] = cost;
  while (backoff_[static_cast<size_t>(empty_)].state >= 0)
    empty_ = backoff_[static_cast<size_t>(empty_)].state;
}

std::optional<WordLm::Step> WordLm::next(int32_t state, int32_t word) const {
  float cost = 0;
  while (state >= 0) {
    const auto s = static_cast<size_t>(state);
    const auto end = arcs_.begin() + begin_[s + 1];
    const auto found = std::lower_bound(arcs_.begin() + begin_[s], end, word,
                                        [](const Arc& arc, int32_t w) { return arc.word < w; });
    if (found != end && found->word == word) return Step{found->to, cost + found->cost};
    cost += backoff_[s].cost;
    state = backoff_[s].state;
  }
  return std::nullopt;
}

float WordLm::final_cost(int32_t state) const {
  float cost = 0;
  while (state >= 0) {
    const auto s = static_cast<size_t>(state);
    if (final_cost_[s] < std::numeric_limits<float>::infinity()) return cost + final_cost_[s];
    cost += backoff_[s].cost;
    state = backoff_[s].state;
  }
  return std::numeric_limits<float>::infinity();
}

}  // namespace rtfx
