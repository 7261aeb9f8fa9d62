// Reads a decoding graph (TLG), and looks at each of its arcs and words.
#include "algorithms/shared/wfst/graph.h"
#include "tests/fuzz/fuzz.h"

RTFX_FUZZ_TARGET(bytes) {
  rtfx::repair_checksum(bytes, 144, 208);
  const rtfx::MemoryFile file(bytes);
  const rtfx::WfstGraph graph = rtfx::WfstGraph::map(file.path());
  const rtfx::GraphView& view = graph.view();
  for (int64_t i = 0; i < view.arc_count; ++i) {
    const rtfx::GraphArc& arc = view.arcs[i];
    RTFX_CHECK(view.emitting_begin[arc.next + 1] >= view.emitting_begin[arc.next], "an arc");
    if (arc.word > 0) std::string(graph.word(arc.word));
  }
}
