// The topologies of decoding graphs, and the transducer T from labels of frames to tokens.
#pragma once

#include <string>
#include <vector>

#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/graph.h"

namespace rtfx {

/// The topologies of T (Laptev et al., "CTC Variations Through New WFST Topologies", 2022).
/// `normal` has one state for each token and an arc between each two of them. The same token can be
/// emitted twice only with a blank in between. `compact` goes to the next token by an epsilon arc
/// back to state 0, so that 3 V arcs take the place of V^2. In it the same token needs no blank in
/// between, which adds paths and removes none. `normal_riva` is `normal` as the decoder of the WFST
/// paper builds it (riva-asrlib-decoder): state 0 of T has no loops for disambiguation symbols. So
/// no back-off arc of the language model can be taken before the first token or after a blank. This
/// removes paths. A text can begin only with a word that has a bigram behind <s>. After a blank, a
/// word needs an n-gram behind the history that the path had before the blank. `tokens` is no
/// topology of CTC: it has no blank and no repetition. It is made for searches that know which of
/// their labels are tokens, such as those of transducers.
enum class Topology { normal, compact, tokens, normal_riva };

const std::vector<std::string>& topology_names();
std::string topology_name(Topology topology);
/// Throws UserError(where) for an unknown name.
Topology parse_topology(const std::string& name, const std::string& where);

/// Returns T, the part of a CTC graph that drops blanks and repetitions. State 0 is before the
/// first token and after a blank, and state i is just after token i - 1. The numbers of arcs are
///   normal   1 + 3 V + V (V - 1) + D (V + 1);  every state is final
///   compact  1 + 3 V + D;                      state 0 is final
///   tokens   V + D;                            state 0 is the only one
/// D loops epsilon:#k let the disambiguation symbols of LG pass. In `normal`, every state has them,
/// so that a back-off before the first token is possible, too. In `normal_riva`, state 0 has none:
/// the number of arcs is 1 + 3 V + V (V - 1) + D V.
TransducerArcs token_transducer(Topology topology, const TokenLabels& labels);

}  // namespace rtfx
