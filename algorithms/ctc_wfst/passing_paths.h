// Between the host's graph and paths and what token passing reads and writes.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/ctc_wfst/passing.h"
#include "algorithms/wfst/search.h"

namespace rtfx {

/// [arc_count]: the state that each arc leaves.
std::vector<int32_t> arc_sources(const GraphView& graph);

/// Arcs that a path of `frames` frames can have.
int64_t longest_path(const GraphView& graph, int64_t frames);

/// The path of an utterance; `arcs_end`: behind the last of its arcs.
WfstPath passing_path(const GraphView& graph, const PassingEnd& end, const int32_t* arcs_end);

}  // namespace rtfx
