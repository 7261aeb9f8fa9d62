// Between the host's graph and paths and what token passing reads and writes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "algorithms/shared/wfst/lattice.h"

namespace rtfx {

/// [arc_count]: the state that each arc leaves.
std::vector<int32_t> arc_sources(const GraphView& graph);

/// [states + 1], as PassingGraph has them.
std::vector<PassingState> passing_states(const GraphView& graph);

/// The lattices of a batch in one, tokens by the index of their traces, [traces] of them; and the
/// ends of each of its `rows` rows.
struct PassingLattice {
  WfstLattice lattice;
  std::vector<std::vector<WfstLattice::End>> ends;
};
PassingLattice passing_lattice(std::span<const PassingLink> links, int64_t traces, int64_t rows,
                               float beam);

/// Arcs that a path of `frames` frames can have.
int64_t longest_path(const GraphView& graph, int64_t frames);

/// The token at which the best path of a row ends: as if its frames were all, or as if more came.
PassingBest best_token(const PassingEnd& end, bool at_end);

/// The arcs of the path to it: back through `traces`, where the host has them.
std::vector<int32_t> path_arcs(const PassingTrace* traces, const PassingEnd& end, bool at_end);

/// The path to it, of which `arcs` are the arcs.
WfstPath passing_path(const GraphView& graph, const PassingEnd& end, bool at_end,
                      std::span<const int32_t> arcs);

}  // namespace rtfx
