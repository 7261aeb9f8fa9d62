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
  return at_end && end.in_final.token >= 0 ? end.in_final : end.of_all;
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
  path.reached_final = at_end && end.in_final.token >= 0;
  path.cost = end.offset + best_token(end, at_end).cost;
  read_path(graph, arcs, path);
  return path;
}

}  // namespace rtfx
