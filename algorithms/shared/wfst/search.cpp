#include "algorithms/shared/wfst/search.h"

namespace rtfx {

void read_path(const GraphView& graph, std::span<const int32_t> arcs, WfstPath& path) {
  const int32_t blank = graph.columns - 1;
  int32_t state = graph.start, frames = 0;
  for (const int32_t number : arcs) {
    const GraphArc& arc = graph.arcs[number];
    const bool emitting = arc.column >= 0;
    const int32_t frame = emitting || frames == 0 ? frames : frames - 1;
    if (arc.word != 0) {
      path.words.push_back(arc.word);
      path.word_frames.push_back(frame);
    }
    if (emitting && arc.column != blank && arc.next != state) {
      path.tokens.push_back(arc.column);
      path.token_frames.push_back(frame);
    }
    frames += emitting;
    state = arc.next;
  }
}

}  // namespace rtfx
