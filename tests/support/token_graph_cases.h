// Random graphs of tokens, and their costs of a text by plain loops.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/topology.h"
#include "tests/support/wfst_cases.h"

namespace rtfx::test {

/// Returns a random graph of `states` states, whose arcs have the first `tokens` of `vocabulary`
/// tokens and words 1 and 2. Arcs without a token lead to higher states, some in chains. Now and
/// then a state has several arcs of one token. With `fine`, all costs differ. Otherwise they are
/// multiples of 1/4, so that many sums are equal.
inline WfstGraph random_token_graph(std::mt19937& random, int32_t states, int32_t vocabulary,
                                    int32_t tokens, bool fine) {
  const auto below = [&](int32_t n) { return std::uniform_int_distribution(0, n - 1)(random); };
  const auto cost = [&](float shift) {
    const float offset = fine ? std::uniform_real_distribution<float>(0, 0.2f)(random) : 0;
    return quarter(random, 6) + offset - shift;
  };
  TransducerArcs t;
  t.states = states;
  for (int32_t s = 0; s < states; ++s) {
    for (int32_t k = 1; k <= tokens; ++k)
      for (int32_t copies = std::max(0, below(5) - 2); copies > 0; --copies)
        t.add(s, below(states), k, below(3), cost(0));
    for (int32_t copies = below(3); s + 1 < states && copies > 0; --copies)
      t.add(s, s + 1 + below(states - s - 1), 0, below(3), cost(0.5f));
    if (below(3) == 0) t.finals.emplace_back(s, cost(0));
  }
  t.finals.emplace_back(states - 1, 1.0f);
  t.add(0, below(states), 1, 0, cost(0));
  return WfstGraph::from(t, vocabulary, {"one", "two"}, topology_name(Topology::tokens),
                         std::string(64, '0'), "test");
}

/// Computes sets of states by the rule of token_graph.h, with sums in double precision.
class PlainGraph {
 public:
  using Set = std::map<int32_t, double>;
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  PlainGraph(const WfstGraph& graph, size_t max_states)
      : view_(graph.view()), max_states_(max_states) {}

  Set set(const std::vector<int32_t>& text) const {
    Set all = {{view_.start, 0.0}};
    all = pruned(closed(std::move(all)));
    for (const int32_t token : text) {
      Set next;
      for (const auto& [state, cost] : all) {
        for (int32_t i = view_.emitting_begin[state]; i < view_.emitting_begin[state + 1]; ++i)
          if (view_.arcs[i].column == token)
            lower(next, view_.arcs[i].next, cost + static_cast<double>(view_.arcs[i].cost));
      }
      all = pruned(closed(std::move(next)));
    }
    return all;
  }

  /// Returns G(text). It is 0 at the start, and +infinity where the graph has no such text.
  double cost(const std::vector<int32_t>& text) const {
    if (text.empty()) return 0;
    double least = kNone;
    for (const auto& [state, cost] : set(text)) least = std::min(least, cost);
    return least;
  }

  /// Returns the cost of a whole text with its end.
  double final_cost(const std::vector<int32_t>& text) const {
    double least = kNone;
    for (const auto& [state, cost] : set(text))
      least = std::min(least, cost + static_cast<double>(view_.final_cost[state]));
    return least;
  }

 private:
  static bool lower(Set& set, int32_t state, double cost) {
    const auto [found, is_new] = set.try_emplace(state, cost);
    const bool lowered = is_new || cost < found->second;
    found->second = std::min(found->second, cost);
    return lowered;
  }

  Set closed(Set set) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [state, cost] : Set(set))
        for (int32_t i = view_.nonemitting_begin[state]; i < view_.nonemitting_begin[state + 1];
             ++i)
          changed |= lower(set, view_.arcs[i].next, cost + static_cast<double>(view_.arcs[i].cost));
    }
    return set;
  }

  Set pruned(const Set& set) const {
    std::vector<std::pair<double, int32_t>> order;
    for (const auto& [state, cost] : set)
      if (view_.emitting_begin[state] < view_.emitting_begin[state + 1] ||
          std::isfinite(view_.final_cost[state]))
        order.emplace_back(cost, state);
    std::sort(order.begin(), order.end());
    order.resize(std::min(order.size(), max_states_));
    Set kept;
    for (const auto& [cost, state] : order) kept.emplace(state, cost);
    return kept;
  }

  GraphView view_;
  size_t max_states_;
};

/// Follows every path of a graph that reads a text and ends in a final state.
class EveryTokenPath {
 public:
  EveryTokenPath(const WfstGraph& graph, const std::vector<int32_t>& text)
      : view_(graph.view()), text_(text) {
    walk(view_.start, 0, 0);
  }

  double best() const { return best_; }

  /// Words, each with the number of tokens that were read when its arc was passed, including the
  /// arc's own.
  using PlacedWords = std::vector<std::pair<int32_t, int32_t>>;
  /// Returns the words of all paths of the least cost, up to rounding. The arcs of cycles may come
  /// in several orders.
  std::vector<PlacedWords> words() const {
    std::vector<PlacedWords> all;
    for (const auto& [cost, words] : found_)
      if (cost < best_ + 1e-5) all.push_back(words);
    return all;
  }

 private:
  void walk(int32_t state, size_t read, double cost) {
    const double end = cost + static_cast<double>(view_.final_cost[state]);
    if (read == text_.size() && end < best_ + 1e-5) {
      best_ = std::min(best_, end);
      found_.emplace_back(end, words_);
    }
    for (int32_t i = view_.nonemitting_begin[state]; i < view_.nonemitting_begin[state + 1]; ++i)
      follow(view_.arcs[i], read, cost);
    if (read == text_.size()) return;
    for (int32_t i = view_.emitting_begin[state]; i < view_.emitting_begin[state + 1]; ++i)
      if (view_.arcs[i].column == text_[read]) follow(view_.arcs[i], read + 1, cost);
  }

  void follow(const GraphArc& arc, size_t read, double cost) {
    if (arc.word != 0) words_.emplace_back(arc.word, read);
    walk(arc.next, read, cost + static_cast<double>(arc.cost));
    if (arc.word != 0) words_.pop_back();
  }

  GraphView view_;
  const std::vector<int32_t>& text_;
  double best_ = std::numeric_limits<double>::infinity();
  PlacedWords words_;
  std::vector<std::pair<double, PlacedWords>> found_;
};

}  // namespace rtfx::test
