#include "algorithms/decoders/wfst/ctc_wfst/passing_paths.h"

#include <algorithm>
#include <tuple>

namespace rtfx {

std::vector<int32_t> arc_sources(const GraphView& graph) {
  std::vector<int32_t> source(static_cast<size_t>(graph.arc_count));
  for (const int32_t* begin : {graph.emitting_begin, graph.nonemitting_begin})
    for (int32_t s = 0; s < graph.states; ++s)
      for (int32_t a = begin[s]; a < begin[s + 1]; ++a) source[static_cast<size_t>(a)] = s;
  return source;
}

std::vector<PassingState> passing_states(const GraphView& graph) {
  std::vector<PassingState> states;
  for (int32_t s = 0; s <= graph.states; ++s)
    states.push_back({graph.emitting_begin[s], graph.nonemitting_begin[s]});
  return states;
}

PassingLattice passing_lattice(std::span<const PassingLink> links, int64_t traces, int64_t rows,
                               float beam) {
  PassingLattice all;
  all.lattice.beam = beam;
  all.ends.resize(static_cast<size_t>(rows));
  std::vector<WfstLattice::Link> into;
  std::vector<PassingLink> to_end;
  for (const PassingLink& link : links) {
    if (link.to < 0) {
      to_end.push_back(link);
    } else {
      into.push_back({link.to, link.from, link.arc, link.slack});
    }
  }
  all.lattice.add_tokens(traces, std::move(into));
  std::sort(to_end.begin(), to_end.end(), [](const PassingLink& a, const PassingLink& b) {
    return std::tie(a.slack, a.arc) < std::tie(b.slack, b.arc);
  });
  for (const PassingLink& link : to_end)
    all.ends[static_cast<size_t>(-1 - link.to)].push_back({link.from, link.slack});
  return all;
}

int64_t longest_path(const GraphView& graph, int64_t frames) {
  return (frames + 1) * (1 + int64_t{graph.longest_nonemitting});
}

PassingBest best_token(const PassingEnd& end, bool at_end) {
  return at_end && end.best_final.token >= 0 ? end.best_final : end.best_open;
}

std::vector<int32_t> path_arcs(const PassingTrace* traces, const PassingEnd& end, bool at_end) {
  std::vector<int32_t> arcs;
  const PassingBest best = best_token(end, at_end);
  if (best.token < 0) return arcs;
  for (int32_t i = end.first_trace + best.token; i >= 0; i = traces[i].previous)
    if (traces[i].arc >= 0) arcs.push_back(traces[i].arc);
  std::reverse(arcs.begin(), arcs.end());
  return arcs;
}

WfstPath passing_path(const GraphView& graph, const PassingEnd& end, bool at_end,
                      std::span<const int32_t> arcs) {
  WfstPath path;
  path.alive = end.status == PassingStatus::final || end.status == PassingStatus::open;
  if (!path.alive) return path;
  path.reached_final = at_end && end.best_final.token >= 0;
  path.cost = end.offset + best_token(end, at_end).cost;
  read_path(graph, arcs, path);
  return path;
}

namespace {

constexpr size_t kTracesToKeep = 1 << 12;  // fewer are not worth looking through

}  // namespace

void PieceHistory::append(const PassingEnd& end, const PassingTrace* traces,
                          std::span<int32_t> positions) {
  std::vector<int32_t> token_traces(static_cast<size_t>(end.tokens));
  for (int32_t token = 0; token < end.tokens; ++token) {
    // Go back to a trace that is here already, then add the chain from there.
    chain_.clear();
    int32_t i = end.first_trace + token;
    while (i >= 0 && positions[static_cast<size_t>(i)] == kNoPosition) {
      chain_.push_back(i);
      i = traces[i].previous;
    }
    int32_t last = -1;
    if (i >= 0) {
      last = positions[static_cast<size_t>(i)];
    } else if (i < -1) {
      last = token_traces_[static_cast<size_t>(i - kPieceBefore)];
    }
    for (auto next = chain_.rbegin(); next != chain_.rend(); ++next) {
      traces_.push_back({traces[*next].arc, last});
      last = static_cast<int32_t>(traces_.size()) - 1;
      positions[static_cast<size_t>(*next)] = last;
    }
    token_traces[static_cast<size_t>(token)] = last;
  }
  token_traces_ = std::move(token_traces);
  end_ = end;
  begun_ = true;
  if (traces_.size() > std::max(2 * kept_traces_, kTracesToKeep)) drop_unused_traces();
}

void PieceHistory::drop_unused_traces() {
  constexpr int32_t kUnused = -1, kUsed = 0;
  moved_.assign(traces_.size(), kUnused);
  for (const int32_t i : token_traces_) moved_[static_cast<size_t>(i)] = kUsed;
  for (size_t i = traces_.size(); i-- > 0;) {
    const int32_t previous = traces_[i].previous;
    if (moved_[i] == kUsed && previous >= 0) moved_[static_cast<size_t>(previous)] = kUsed;
  }
  size_t kept = 0;
  for (size_t i = 0; i < traces_.size(); ++i) {
    if (moved_[i] == kUnused) continue;
    auto [arc, previous] = traces_[i];
    if (previous >= 0) previous = moved_[static_cast<size_t>(previous)];
    moved_[i] = static_cast<int32_t>(kept);
    traces_[kept++] = {arc, previous};
  }
  traces_.resize(kept);
  for (int32_t& i : token_traces_) i = moved_[static_cast<size_t>(i)];
  kept_traces_ = kept;
}

WfstPath PieceHistory::best_path(const GraphView& graph, bool at_end) const {
  std::vector<int32_t> arcs;
  const PassingBest best = best_token(end_, at_end);
  if (best.token >= 0) {
    for (int32_t i = token_traces_[static_cast<size_t>(best.token)]; i >= 0;
         i = traces_[static_cast<size_t>(i)].previous) {
      const int32_t arc = traces_[static_cast<size_t>(i)].arc;
      if (arc >= 0) arcs.push_back(arc);
    }
  }
  std::reverse(arcs.begin(), arcs.end());
  return passing_path(graph, end_, at_end, arcs);
}

PassingRow PieceHistory::next_row() const {
  PassingRow row;
  if (begun_) {
    row.tokens = end_.tokens;
    row.offset = end_.offset;
  }
  return row;
}

}  // namespace rtfx
