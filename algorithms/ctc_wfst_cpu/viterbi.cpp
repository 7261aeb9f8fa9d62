#include "algorithms/ctc_wfst_cpu/viterbi.h"

#include <algorithm>
#include <tuple>

namespace rtfx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

ViterbiSearch::ViterbiSearch(const GraphView& graph, float beam, int64_t max_active)
    : graph_(graph),
      beam_(beam),
      max_active_(static_cast<size_t>(max_active)),
      token_of_(static_cast<size_t>(graph.states), -1) {}

WfstPath ViterbiSearch::run(const float* lp, int64_t frames, int64_t stride,
                            std::span<const float> word_costs) {
  word_costs_ = word_costs;
  counts_ = {};
  traces_.clear();
  frame_begin_ = 0;
  offset_ = 0;
  reach(0.0f, -1, -1);
  finish_frame(beam_);
  for (int64_t t = 0; t < frames && !tokens_.empty(); ++t) expand(lp + t * stride);
  WfstPath path = best_path();
  for (const Token& token : tokens_) token_of_[static_cast<size_t>(token.state)] = -1;
  tokens_.clear();
  return path;
}

float ViterbiSearch::cost_of(const GraphArc& arc) const {
  if (arc.word == 0 || word_costs_.empty()) return arc.cost;
  return arc.cost + word_costs_[static_cast<size_t>(arc.word)];
}

float ViterbiSearch::frontier_cutoff() {
  if (tokens_.size() <= max_active_) return kInfinity;
  costs_.clear();
  for (const Token& token : tokens_) costs_.push_back(token.cost);
  const auto nth = costs_.begin() + static_cast<ptrdiff_t>(max_active_);
  std::nth_element(costs_.begin(), nth, costs_.end());
  // The least cost is 0; tokens that have it expand even if more than max_active do.
  return std::max(*nth, std::numeric_limits<float>::min());
}

/// From the tokens of one frame to those of the next.
void ViterbiSearch::expand(const float* lp) {
  const float cutoff = frontier_cutoff();
  // `cut` only falls, and ends as best + beam: what it let through too early is dropped below.
  float cut = kInfinity;
  candidates_.clear();
  const auto expand_token = [&](size_t i, const auto& take) {
    const Token& token = tokens_[i];
    const auto s = static_cast<size_t>(token.state);
    for (int32_t a = graph_.emitting_begin[s]; a < graph_.emitting_begin[s + 1]; ++a) {
      const GraphArc& arc = graph_.arcs[a];
      const float cost = (token.cost + cost_of(arc)) - lp[arc.column];
      if (cost < cut) {
        cut = std::min(cut, cost + beam_);
        take(Candidate{cost, a, static_cast<int32_t>(frame_begin_ + i)});
      }
    }
  };
  // A look at the best token first lets `cut` start low.
  const auto cheaper = [](const Token& a, const Token& b) { return a.cost < b.cost; };
  const auto best = std::min_element(tokens_.begin(), tokens_.end(), cheaper);
  expand_token(static_cast<size_t>(best - tokens_.begin()), [](const Candidate&) {});
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (!(tokens_[i].cost < cutoff)) continue;
    ++counts_.expanded_tokens;
    const auto s = static_cast<size_t>(tokens_[i].state);
    counts_.scanned_arcs += graph_.emitting_begin[s + 1] - graph_.emitting_begin[s];
    expand_token(i, [&](const Candidate& c) { candidates_.push_back(c); });
  }

  for (const Token& token : tokens_) token_of_[static_cast<size_t>(token.state)] = -1;
  tokens_.clear();
  frame_begin_ = traces_.size();
  for (const Candidate& c : candidates_)
    if (c.cost < cut) reach(c.cost, c.arc, c.previous);
  finish_frame(cut);
}

/// A path into the state that `arc` leads to (the start: -1).
void ViterbiSearch::reach(float cost, int32_t arc, int32_t previous) {
  const int32_t state = arc < 0 ? graph_.start : graph_.arcs[arc].next;
  int32_t& index = token_of_[static_cast<size_t>(state)];
  if (index < 0) {
    index = static_cast<int32_t>(tokens_.size());
    tokens_.push_back({state, cost, arc, previous});
    unfollowed_.push_back(index);
    return;
  }
  Token& token = tokens_[static_cast<size_t>(index)];
  if (std::tie(cost, arc) >= std::tie(token.cost, token.arc)) return;
  if (cost < token.cost) unfollowed_.push_back(index);
  token = {state, cost, arc, previous};
}

/// To the fixed point, which is the same in any order: costs only fall, and a sum of float32 never
/// falls where a summand rises.
void ViterbiSearch::follow_nonemitting(float cut) {
  while (!unfollowed_.empty()) {
    const auto index = static_cast<size_t>(unfollowed_.back());
    unfollowed_.pop_back();
    const Token token = tokens_[index];
    const auto s = static_cast<size_t>(token.state);
    for (int32_t a = graph_.nonemitting_begin[s]; a < graph_.nonemitting_begin[s + 1]; ++a) {
      const float cost = token.cost + cost_of(graph_.arcs[a]);
      if (cost < cut) reach(cost, a, static_cast<int32_t>(frame_begin_ + index));
    }
  }
}

void ViterbiSearch::finish_frame(float cut) {
  follow_nonemitting(cut);
  float least = kInfinity;
  for (const Token& token : tokens_) least = std::min(least, token.cost);
  for (Token& token : tokens_) {
    token.cost -= least;
    traces_.push_back({token.arc, token.previous});
  }
  if (!tokens_.empty()) offset_ += least;
  counts_.kept_tokens += static_cast<int64_t>(tokens_.size());
}

WfstPath ViterbiSearch::best_path() const {
  WfstPath path;
  path.alive = !tokens_.empty();
  if (!path.alive) return path;
  // Final states before others, then the least cost, then the lowest state.
  const auto rank = [this](const Token& token) {
    const float final_cost = graph_.final_cost[token.state];
    const bool ends = final_cost < kInfinity;
    return std::tuple(!ends, ends ? token.cost + final_cost : token.cost, token.state);
  };
  const auto best =
      std::min_element(tokens_.begin(), tokens_.end(),
                       [&](const Token& a, const Token& b) { return rank(a) < rank(b); });
  const auto [open, cost, state] = rank(*best);
  path.reached_final = !open;
  path.cost = offset_ + cost;
  std::vector<int32_t> arcs;
  for (auto i = static_cast<int32_t>(frame_begin_ + static_cast<size_t>(best - tokens_.begin()));
       i >= 0; i = traces_[static_cast<size_t>(i)].previous) {
    if (traces_[static_cast<size_t>(i)].arc >= 0)
      arcs.push_back(traces_[static_cast<size_t>(i)].arc);
  }
  std::reverse(arcs.begin(), arcs.end());
  read_path(graph_, arcs, path);
  return path;
}

}  // namespace rtfx
