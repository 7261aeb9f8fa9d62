// T: from frame labels to tokens, the part of a CTC graph that drops blanks and repetitions.
// Topologies of Laptev et al., "CTC Variations Through New WFST Topologies", 2022.
#pragma once

#include <string>
#include <vector>

#include "algorithms/shared/wfst/transducer_arcs.h"

namespace rtfx {

/// normal: one state per token and an arc between each two of them. To emit the same token twice
/// takes a blank in between.
/// compact: the way to the next token is an epsilon arc back to state 0, so that V^2 arcs become
/// 3 V. The same token twice needs no blank in between, which adds paths and takes none away.
enum class Topology { normal, compact };

const std::vector<std::string>& topology_names();
std::string topology_name(Topology topology);
/// Throws UserError(where) for another name.
Topology parse_topology(const std::string& name, const std::string& where);

/// State 0 is before the first token and after a blank, state i just after token i - 1. Arcs:
///   normal   1 + 3 V + V (V - 1) + D (V + 1);  every state is final
///   compact  1 + 3 V + D;                      state 0 is final
/// The D loops epsilon:#k let disambiguation symbols of LG pass: with every state in `normal`, so
/// that a back-off before the first token is possible, too.
TransducerArcs token_transducer(Topology topology, const TokenLabels& labels);

}  // namespace rtfx
