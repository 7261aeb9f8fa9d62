#include "algorithms/ctc_wfst/passing_paths.h"

namespace rtfx {

std::vector<int32_t> arc_sources(const GraphView& graph) {
  std::vector<int32_t> source(static_cast<size_t>(graph.arc_count));
  for (const int32_t* begin : {graph.emitting_begin, graph.nonemitting_begin})
    for (int32_t s = 0; s < graph.states; ++s)
      for (int32_t a = begin[s]; a < begin[s + 1]; ++a) source[static_cast<size_t>(a)] = s;
  return source;
}

int64_t longest_path(const GraphView& graph, int64_t frames) {
  return (frames + 1) * (1 + int64_t{graph.longest_nonemitting});
}

WfstPath passing_path(const GraphView& graph, const PassingEnd& end, const int32_t* arcs_end) {
  WfstPath path;
  path.alive = end.status == PassingStatus::final || end.status == PassingStatus::open;
  if (!path.alive) return path;
  path.reached_final = end.status == PassingStatus::final;
  path.cost = end.cost;
  read_path(graph, {arcs_end - end.arcs, static_cast<size_t>(end.arcs)}, path);
  return path;
}

}  // namespace rtfx
