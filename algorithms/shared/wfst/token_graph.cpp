#include "algorithms/shared/wfst/token_graph.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "algorithms/shared/wfst/topology.h"
#include "algorithms/shared/wfst/wfst_options.h"
#include "base/error.h"
#include "models/acoustic_model.h"

namespace rtfx {

namespace {

constexpr float kNoWay = std::numeric_limits<float>::infinity();
constexpr int64_t kMostParallel = 64, kMostFollowing = 256;

at::Tensor to_device(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(values, at::kLong).to(device);
}
at::Tensor to_device(const std::vector<float>& values, at::Device device) {
  return at::tensor(values, at::kFloat).to(device);
}

/// Returns integers in the order of `values` (float32, no NaN, no -0), within 32 bits.
at::Tensor ordered(const at::Tensor& values) {
  const at::Tensor bits = values.contiguous().view(at::kInt).to(at::kLong);
  return at::where(bits < 0, bits.bitwise_xor(std::numeric_limits<int32_t>::max()), bits);
}

constexpr int64_t kHigh = int64_t{1} << 32;

/// Keeps the `count` cheapest of candidates [R, n], each state once with its least cost.
GraphStates cheapest(const at::Tensor& states, const at::Tensor& costs, int64_t count) {
  const at::Tensor by_state = std::get<1>((states * kHigh + ordered(costs)).sort(1));
  const at::Tensor sorted = states.gather(1, by_state);
  at::Tensor cost = costs.gather(1, by_state);
  const at::Tensor repeats =
      sorted.narrow(1, 1, sorted.size(1) - 1) == sorted.narrow(1, 0, sorted.size(1) - 1);
  cost.narrow(1, 1, cost.size(1) - 1).masked_fill_(repeats, kNoWay);
  const at::Tensor state = sorted.masked_fill(cost.isinf(), 0);
  const at::Tensor by_cost =
      std::get<1>((ordered(cost) * kHigh + state).sort(1)).narrow(1, 0, count);
  return {state.gather(1, by_cost), cost.gather(1, by_cost)};
}

/// A state that is reached without a token.
struct Reached {
  int32_t state;
  float cost;
  int32_t before;  // index of the state before it; -1 if there is none
  int32_t word;    // word of the arc into it
};

/// Returns whether a state has an emitting arc or a final cost. Other states only lead on without a
/// token.
bool is_useful(const GraphView& g, int32_t state) {
  return g.emitting_begin[state] < g.emitting_begin[state + 1] || g.final_cost[state] < kNoWay;
}

/// Returns the states that follow without a token, `state` first, each with its least cost. A state
/// that becomes cheaper is followed again. Since there is no cycle, this ends.
std::vector<Reached> closure(const GraphView& g, int32_t state) {
  std::vector<Reached> reached = {{state, 0, -1, 0}};
  if (g.nonemitting_begin[state] == g.nonemitting_begin[state + 1]) return reached;
  std::map<int32_t, size_t> place = {{state, 0}};
  std::vector<size_t> changed = {0};
  while (!changed.empty()) {
    std::vector<size_t> again;
    for (const size_t from : changed) {
      const int32_t at = reached[from].state;
      for (int32_t i = g.nonemitting_begin[at]; i < g.nonemitting_begin[at + 1]; ++i) {
        const GraphArc& arc = g.arcs[i];
        const float cost = reached[from].cost + arc.cost;
        const auto [found, is_new] = place.try_emplace(arc.next, reached.size());
        if (is_new) reached.push_back({arc.next, kNoWay, -1, 0});
        Reached& there = reached[found->second];
        if (cost >= there.cost) continue;
        there = {arc.next, cost, static_cast<int32_t>(from), arc.word};
        again.push_back(found->second);
      }
    }
    changed = std::move(again);
  }
  return reached;
}

}  // namespace

WfstGraph load_token_graph(const std::filesystem::path& path, const AcousticModel& model) {
  WfstGraph graph = load_graph(path, model);
  const GraphView& view = graph.view();
  const bool has_blank =
      std::any_of(view.arcs, view.arcs + view.emitting_arcs,
                  [&](const GraphArc& arc) { return arc.column == view.columns - 1; });
  if (graph.topology() != topology_name(Topology::tokens) || has_blank) {
    throw UserError(path.string(),
                    fmt::format("has the topology '{}' of CTC, and a transducer has its own blanks",
                                graph.topology()),
                    "build it with `rtfx graph build --topology tokens`");
  }
  return graph;
}

TokenGraph::TokenGraph(WfstGraph graph, int64_t max_states, at::Device device,
                       const std::string& where)
    : graph_(std::move(graph)), max_states_(max_states), vocabulary_(graph_.view().columns - 1) {
  make_tables(device, where);
}

void TokenGraph::make_tables(at::Device device, const std::string& where) {
  const GraphView& g = graph_.view();
  const auto count = static_cast<size_t>(g.states);
  const auto refuse = [&](const std::string& problem) {
    throw UserError(where, problem, "determinise the graph, as `rtfx graph build` does");
  };
  if (g.emitting_arcs == 0) refuse("has no arc with a token");

  std::vector<float> least(count, kNoWay), final_cost(g.final_cost, g.final_cost + count);
  std::vector<std::vector<std::pair<int64_t, float>>> following(count);
  size_t most = 1;
  for (int32_t s = 0; s < g.states; ++s) {
    auto& kept = following[static_cast<size_t>(s)];
    for (const Reached& r : closure(g, s)) {
      if (!is_useful(g, r.state)) continue;
      kept.emplace_back(r.state, r.cost);
      least[static_cast<size_t>(s)] = std::min(least[static_cast<size_t>(s)], r.cost);
    }
    most = std::max(most, kept.size());
  }
  if (following[static_cast<size_t>(g.start)].empty()) refuse("has a start that leads nowhere");
  if (most > static_cast<size_t>(kMostFollowing))
    refuse(fmt::format("has a state that {} others follow without a token", most - 1));
  std::vector<int64_t> closure_states(count * most);
  std::vector<float> closure_costs(count * most, kNoWay);
  for (size_t s = 0; s < count; ++s) {
    for (size_t i = 0; i < following[s].size(); ++i) {
      closure_states[s * most + i] = following[s][i].first;
      closure_costs[s * most + i] = following[s][i].second;
    }
  }

  std::vector<int64_t> keys, next;
  std::vector<float> arc_costs, totals;
  int64_t run = 0;
  for (int32_t s = 0; s < g.states; ++s) {
    for (int32_t i = g.emitting_begin[s]; i < g.emitting_begin[s + 1]; ++i) {
      const GraphArc& arc = g.arcs[i];
      const int64_t key = s * vocabulary_ + arc.column;
      run = !keys.empty() && keys.back() == key ? run + 1 : 1;
      parallel_ = std::max(parallel_, run);
      keys.push_back(key);
      next.push_back(arc.next);
      arc_costs.push_back(arc.cost);
      totals.push_back(arc.cost + least[static_cast<size_t>(arc.next)]);
    }
  }
  if (parallel_ > kMostParallel)
    refuse(fmt::format("has a state with {} arcs of one token", parallel_));

  keys_ = to_device(keys, device);
  next_ = to_device(next, device);
  arc_ = to_device(arc_costs, device);
  totals_ = to_device(totals, device);
  const std::vector<int64_t> shape = {g.states, static_cast<int64_t>(most)};
  closure_states_ = to_device(closure_states, device).view(shape);
  closure_costs_ = to_device(closure_costs, device).view(shape);
  final_ = to_device(final_cost, device);

  const at::Tensor none = at::full({1, max_states_}, kNoWay, closure_costs_.options());
  start_ =
      cheapest(at::cat({closure_states_.narrow(0, g.start, 1), at::zeros_like(none, at::kLong)}, 1),
               at::cat({closure_costs_.narrow(0, g.start, 1), none}, 1), max_states_);
}

GraphStates TokenGraph::start(int64_t rows) const {
  return {start_.states.repeat({rows, 1}), start_.costs.repeat({rows, 1})};
}

at::Tensor TokenGraph::costs(const GraphStates& texts, const at::Tensor& tokens) const {
  const at::Tensor keys = texts.states.unsqueeze(2) * vocabulary_ + tokens.unsqueeze(1);
  const at::Tensor first = at::searchsorted(keys_, keys), cost = texts.costs.unsqueeze(2);
  const at::Tensor none = at::full({}, kNoWay, texts.costs.options());
  at::Tensor least;
  for (int64_t i = 0; i < parallel_; ++i) {
    const at::Tensor arcs = (first + i).clamp_max(keys_.size(0) - 1);
    const at::Tensor found =
        at::where(keys_.take(arcs) == keys, cost + totals_.take(arcs), none).amin(1);
    least = least.defined() ? at::minimum(least, found) : found;
  }
  return least;
}

void TokenGraph::advance(GraphStates& texts, const at::Tensor& from, const at::Tensor& tokens,
                         const at::Tensor& is_token) const {
  const at::Tensor states = texts.states.index_select(0, from),
                   costs = texts.costs.index_select(0, from);
  const at::Tensor token = at::where(is_token, tokens, at::zeros_like(tokens)).unsqueeze(1);
  const at::Tensor keys = states * vocabulary_ + token;
  const at::Tensor first = at::searchsorted(keys_, keys);
  const at::Tensor none = at::full({}, kNoWay, costs.options());
  std::vector<at::Tensor> next, cost, total;
  for (int64_t i = 0; i < parallel_; ++i) {
    const at::Tensor arcs = (first + i).clamp_max(keys_.size(0) - 1);
    const at::Tensor found = keys_.take(arcs) == keys;
    next.push_back(next_.take(arcs));
    cost.push_back(at::where(found, costs + arc_.take(arcs), none));
    total.push_back(at::where(found, costs + totals_.take(arcs), none));
  }
  const at::Tensor rows = at::cat(next, 1).flatten(), least = at::cat(total, 1).amin(1);
  const int64_t batch = states.size(0);
  const at::Tensor behind = closure_states_.index_select(0, rows).view({batch, -1});
  at::Tensor way = (at::cat(cost, 1).unsqueeze(2) +
                    closure_costs_.index_select(0, rows).view({batch, -1, closure_costs_.size(1)}))
                       .flatten(1);
  way = at::where(way.isinf(), none, way - least.unsqueeze(1)) + 0.0;  // adding 0 turns -0 into 0
  // A set may have room for more states than follow it.
  const at::Tensor room = at::full({batch, max_states_}, kNoWay, costs.options());
  const GraphStates moved = cheapest(at::cat({behind, at::zeros_like(room, at::kLong)}, 1),
                                     at::cat({way, room}, 1), max_states_);
  const at::Tensor moves = is_token.unsqueeze(1);
  at::where_out(texts.states, moves, moved.states, states);
  at::where_out(texts.costs, moves, moved.costs, costs);
}

at::Tensor TokenGraph::final_costs(const GraphStates& texts) const {
  return (texts.costs + final_.take(texts.states)).amin(1);
}

namespace {

/// Follows one text on the host, in the same sets and the same arithmetic as TokenGraph, and keeps
/// the words of every way. Call advance() for each token, then end().
class WordTracer {
 public:
  /// Makes the set of the empty text. `graph` must outlive this object.
  WordTracer(const GraphView& graph, int64_t max_states);

  /// Makes the set of the text with another token. Returns false if the graph does not have it.
  bool advance(int32_t token);
  /// Returns the words and the cost of the cheapest path of the text. frames[i] is the frame of
  /// token i. The path is not alive if the set is empty.
  WfstPath end(std::span<const int32_t> frames) const;

 private:
  struct Entry {
    int32_t state;
    float cost;
    int32_t before;              // index in the set before
    std::vector<int32_t> words;  // words of the arcs from there
  };
  /// An arc with a token from entry `before`, and the states behind it.
  struct Move {
    size_t before;
    const GraphArc* arc;
    std::vector<Reached> behind;
    float cost;  // of the text, by the cheapest useful state
  };

  static std::vector<int32_t> words_to(const std::vector<Reached>& reached, size_t i,
                                       int32_t first);
  std::vector<Move> moves_of(int32_t token) const;
  void keep_cheapest(std::map<int32_t, Entry> all);

  const GraphView& graph_;
  size_t max_states_;
  std::vector<std::vector<Entry>> sets_;  // of the text after each number of tokens
  double cost_ = 0;                       // of the tokens
};

/// Returns `first`, followed by the words on the way to reached[i].
std::vector<int32_t> WordTracer::words_to(const std::vector<Reached>& reached, size_t i,
                                          int32_t first) {
  std::vector<int32_t> words;
  for (auto at = static_cast<int32_t>(i); at >= 0; at = reached[static_cast<size_t>(at)].before)
    if (const int32_t word = reached[static_cast<size_t>(at)].word; word != 0)
      words.push_back(word);
  if (first != 0) words.push_back(first);
  std::reverse(words.begin(), words.end());
  return words;
}

/// Adds a set of the cheapest entries.
void WordTracer::keep_cheapest(std::map<int32_t, Entry> all) {
  std::vector<Entry> set;
  for (auto& [state, entry] : all) set.push_back(std::move(entry));
  std::stable_sort(set.begin(), set.end(),
                   [](const Entry& a, const Entry& b) { return a.cost < b.cost; });
  set.resize(std::min(set.size(), max_states_));
  sets_.push_back(std::move(set));
}

WordTracer::WordTracer(const GraphView& graph, int64_t max_states)
    : graph_(graph), max_states_(static_cast<size_t>(max_states)) {
  std::map<int32_t, Entry> all;
  const std::vector<Reached> reached = closure(graph_, graph_.start);
  for (size_t i = 0; i < reached.size(); ++i) {
    const Reached& r = reached[i];
    if (is_useful(graph_, r.state))
      all.emplace(r.state, Entry{r.state, r.cost, -1, words_to(reached, i, 0)});
  }
  keep_cheapest(std::move(all));
}

std::vector<WordTracer::Move> WordTracer::moves_of(int32_t token) const {
  const std::vector<Entry>& from = sets_.back();
  std::vector<Move> moves;
  for (size_t e = 0; e < from.size(); ++e) {
    const int32_t state = from[e].state;
    for (int32_t i = graph_.emitting_begin[state]; i < graph_.emitting_begin[state + 1]; ++i) {
      const GraphArc& arc = graph_.arcs[i];
      if (arc.column != token) continue;
      Move move{e, &arc, closure(graph_, arc.next), kNoWay};
      float cheapest_behind = kNoWay;
      for (const Reached& r : move.behind)
        if (is_useful(graph_, r.state)) cheapest_behind = std::min(cheapest_behind, r.cost);
      move.cost = from[e].cost + (arc.cost + cheapest_behind);
      moves.push_back(std::move(move));
    }
  }
  return moves;
}

bool WordTracer::advance(int32_t token) {
  const std::vector<Entry>& from = sets_.back();
  const std::vector<Move> moves = moves_of(token);
  float least = kNoWay;  // cost of the token
  for (const Move& move : moves) least = std::min(least, move.cost);
  if (least == kNoWay) return false;
  cost_ += static_cast<double>(least);
  std::map<int32_t, Entry> all;
  for (const Move& move : moves) {
    for (size_t i = 0; i < move.behind.size(); ++i) {
      const Reached& r = move.behind[i];
      if (!is_useful(graph_, r.state)) continue;
      const float cost = ((from[move.before].cost + move.arc->cost) + r.cost) - least;
      const auto [found, is_new] = all.try_emplace(r.state, Entry{r.state, kNoWay, -1, {}});
      if (cost >= found->second.cost) continue;
      found->second = {r.state, cost, static_cast<int32_t>(move.before),
                       words_to(move.behind, i, move.arc->word)};
    }
  }
  keep_cheapest(std::move(all));
  return true;
}

WfstPath WordTracer::end(std::span<const int32_t> frames) const {
  WfstPath path;
  const std::vector<Entry>& last = sets_.back();
  path.alive = !last.empty();
  if (!path.alive) return path;
  size_t end = 0;
  float least = kNoWay;
  for (size_t e = 0; e < last.size(); ++e) {
    const float cost = last[e].cost + graph_.final_cost[last[e].state];
    if (cost >= least) continue;
    end = e;
    least = cost;
  }
  path.reached_final = least < kNoWay;
  path.cost = cost_ + static_cast<double>(path.reached_final ? least : last[end].cost);
  auto entry = static_cast<int32_t>(end);
  for (size_t i = sets_.size(); i-- > 0;) {
    const Entry& at = sets_[i][static_cast<size_t>(entry)];
    const int32_t frame = frames.empty() ? 0 : frames[i == 0 ? 0 : i - 1];
    for (auto word = at.words.rbegin(); word != at.words.rend(); ++word) {
      path.words.push_back(*word);
      path.word_frames.push_back(frame);
    }
    entry = at.before;
  }
  std::reverse(path.words.begin(), path.words.end());
  std::reverse(path.word_frames.begin(), path.word_frames.end());
  return path;
}

}  // namespace

WfstPath TokenGraph::words(std::span<const int32_t> tokens, std::span<const int32_t> frames) const {
  WordTracer tracer(graph_.view(), max_states_);
  for (const int32_t token : tokens) {
    if (tracer.advance(token)) continue;
    WfstPath none;
    none.alive = false;
    return none;
  }
  WfstPath path = tracer.end(frames);
  if (!path.alive) return path;
  path.tokens.assign(tokens.begin(), tokens.end());
  path.token_frames.assign(frames.begin(), frames.end());
  return path;
}

}  // namespace rtfx
