// Tiny decoding graphs, and a search that follows every path of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/search.h"
#include "algorithms/shared/wfst/topology.h"

namespace rtfx::test {

using Words = std::vector<int32_t>;

inline constexpr TokenLabels kTwoTokens{2, 2};

/// Returns a grammar of the tokens a and b. Its words A (a), AB (a b) and B (b) have the numbers 1,
/// 2 and 3.
inline TransducerArcs two_token_grammar() {
  TransducerArcs lg;
  lg.states = 2;
  lg.finals = {{0, 0.3f}};
  lg.add(0, 1, 1, 0, 0.5f);
  lg.add(1, 0, kTwoTokens.symbol(1), 1, 0.5f);
  lg.add(1, 0, 2, 2, 0.0f);
  lg.add(0, 0, 2, 3, 1.2f);
  return lg;
}

/// Returns the graph of two_token_grammar(), or of `lg`, which may have more words.
inline WfstGraph two_token_graph(Topology topology, const TransducerArcs& lg = two_token_grammar(),
                                 const std::vector<std::string>& words = {"A", "AB", "B"}) {
  return WfstGraph::from(compose(token_transducer(topology, kTwoTokens), lg), kTwoTokens.tokens,
                         words, topology_name(topology), std::string(64, '0'), "test");
}

/// Returns a graph whose only word is AB (a b), so that a path that ends behind a has no final
/// state.
inline WfstGraph one_word_graph() {
  TransducerArcs lg;
  lg.states = 2;
  lg.finals = {{0, 0.0f}};
  lg.add(0, 1, 1, 1, 0);
  lg.add(1, 0, 2, 0, 0);
  return two_token_graph(Topology::compact, lg, {"AB"});
}

/// Returns rows of two frames for one_word_graph(): its word, the first half of it, a NaN, and no
/// frames.
inline EncodedBatch one_word_rows(at::Device device = at::kCPU) {
  const float nan = std::nanf("");
  EncodedBatch rows;
  rows.lengths_host = {2, 2, 2, 0};
  rows.lengths = at::tensor(rows.lengths_host, at::kLong).to(device);
  rows.frames = at::tensor({9.0f, 0.0f, 0.0f, 0.0f, 9.0f, 0.0f, 9.0f, 0.0f, 0.0f, 9.0f, 0.0f, 0.0f,
                            9.0f, 0.0f, 0.0f, nan,  0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f})
                    .reshape({4, 2, 3})
                    .to(device);
  return rows;
}

/// Returns ln of each number, row after row.
inline std::vector<float> logs(const std::vector<std::vector<double>>& rows) {
  std::vector<float> lp;
  for (const auto& row : rows)
    for (const double p : row) lp.push_back(static_cast<float>(std::log(p)));
  return lp;
}

/// Returns a random cost, a multiple of 1/4. So sums are exact, and many paths cost the same.
inline float quarter(std::mt19937& random, int most) {
  return 0.25f * static_cast<float>(std::uniform_int_distribution(0, most)(random));
}

/// Returns a random graph of `states` states, 3 columns and 2 words, whose non-emitting arcs lead
/// to higher states only.
inline WfstGraph random_graph(int32_t states, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int32_t n) { return std::uniform_int_distribution(0, n - 1)(random); };
  TransducerArcs t;
  t.states = states;
  for (int32_t s = 0; s < states; ++s) {
    for (int i = 0; i < 3; ++i) t.add(s, below(states), 1 + below(3), below(3), quarter(random, 6));
    if (s + 1 < states && below(2) == 0)
      t.add(s, s + 1 + below(states - s - 1), 0, below(3), quarter(random, 6) - 0.5f);
    if (below(2) == 0) t.finals.emplace_back(s, quarter(random, 4));
  }
  t.finals.emplace_back(states - 1, 1.0f);
  return WfstGraph::from(t, 2, {"one", "two"}, "none", std::string(64, '0'), "test");
}

/// Returns a graph in which state 1 has `arcs` emitting arcs, and other states have one or two. The
/// start and every third state have a non-emitting arc only. The graph has `tokens` + 1 columns.
inline WfstGraph uneven_graph(int32_t states, int32_t arcs, int32_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int32_t n) { return std::uniform_int_distribution(0, n - 1)(random); };
  TransducerArcs t;
  t.states = states;
  t.add(0, 1, 0, 0, 0.25f);
  for (int32_t i = 0; i < arcs; ++i)
    t.add(1, 2 + i % (states - 2), 1 + below(tokens + 1), below(3), quarter(random, 6));
  for (int32_t s = 2; s < states; ++s) {
    if (s % 3 == 0 && s + 1 < states) {
      t.add(s, s + 1, 0, below(3), quarter(random, 6) - 0.5f);
      continue;
    }
    t.add(s, 1, 1 + below(tokens + 1), below(3), quarter(random, 6));
    if (below(2) == 0) t.add(s, s, 1 + below(tokens + 1), 0, quarter(random, 6));
    if (below(4) == 0) t.finals.emplace_back(s, quarter(random, 4));
  }
  t.finals.emplace_back(states - 1, 1.0f);
  return WfstGraph::from(t, tokens, {"one", "two"}, "none", std::string(64, '0'), "test");
}

inline std::vector<float> random_emissions(int64_t frames, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> lp(static_cast<size_t>(frames * columns));
  for (float& value : lp) value = -quarter(random, 12);
  return lp;
}

/// Expects that two paths are equal in every bit.
inline void expect_same_path(const WfstPath& found, const WfstPath& expected,
                             const std::string& what) {
  ASSERT_EQ(found.alive, expected.alive) << what;
  EXPECT_EQ(found.reached_final, expected.reached_final) << what;
  EXPECT_EQ(found.cost, expected.cost) << what;
  EXPECT_EQ(found.words, expected.words) << what;
  EXPECT_EQ(found.word_frames, expected.word_frames) << what;
  EXPECT_EQ(found.tokens, expected.tokens) << what;
  EXPECT_EQ(found.token_frames, expected.token_frames) << what;
}

/// Finds the least cost of each word sequence, over all paths that end in a final state.
class EveryPath {
 public:
  EveryPath(const GraphView& graph, const std::vector<float>& lp,
            std::vector<float> word_costs = {})
      : graph_(graph), lp_(lp), word_costs_(std::move(word_costs)) {
    frames_ = static_cast<int64_t>(lp.size()) / graph.columns;
    Words words;
    walk(graph.start, 0, 0.0, words);
  }

  const std::map<Words, double>& by_words() const { return best_; }
  double best() const {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [words, cost] : best_) least = std::min(least, cost);
    return least;
  }

 private:
  void walk(int32_t state, int64_t t, double cost, Words& words) {
    if (t == frames_ && std::isfinite(graph_.final_cost[state])) {
      const auto [it, is_new] = best_.try_emplace(words, cost + graph_.final_cost[state]);
      it->second = std::min(it->second, cost + graph_.final_cost[state]);
    }
    for (int32_t a = graph_.nonemitting_begin[state]; a < graph_.nonemitting_begin[state + 1]; ++a)
      follow(graph_.arcs[a], t, cost, words);
    if (t == frames_) return;
    for (int32_t a = graph_.emitting_begin[state]; a < graph_.emitting_begin[state + 1]; ++a) {
      const auto column = static_cast<int64_t>(graph_.arcs[a].column);
      follow(graph_.arcs[a], t + 1, cost - lp_[static_cast<size_t>(t * graph_.columns + column)],
             words);
    }
  }

  void follow(const GraphArc& arc, int64_t t, double cost, Words& words) {
    if (arc.word != 0) {
      words.push_back(arc.word);
      if (!word_costs_.empty()) cost += word_costs_[static_cast<size_t>(arc.word)];
    }
    walk(arc.next, t, cost + arc.cost, words);
    if (arc.word != 0) words.pop_back();
  }

  GraphView graph_;
  const std::vector<float>& lp_;
  std::vector<float> word_costs_;
  int64_t frames_ = 0;
  std::map<Words, double> best_;
};

}  // namespace rtfx::test
