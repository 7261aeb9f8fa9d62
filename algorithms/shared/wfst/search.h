// What searches over a decoding graph have in common: the objective, its limits, the result.
//
//   best path = argmin over paths pi of  sum_{arcs a of pi} cost(a) - sum_{emitting a} lp[t,
//   column(a)]
//                                        + final(end of pi)
//
// lp[t, k] = acoustic_scale * ln p(k | frame t); each path has one emitting arc per frame. Costs,
// beam and score are in these scaled units.
//
// A frame, for every search: each active token (state, cost) with a cost below the frontier cutoff
// expands its emitting arcs, c = (cost + cost(a)) - lp. With best = min c, arcs with
// c < best + beam are kept; of those into one state the one with the least (c, arc number). Then
// non-emitting arcs are followed under the same bound and rule until nothing changes, and the least
// cost is subtracted from all. Frontier cutoff: the max_active-th least cost (counted from 0) where
// there are more tokens than that, else +infinity; tokens of the least cost, 0, always expand. All
// in float32, in this order, without fused multiply-add; so all searches agree in every bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/shared/wfst/graph.h"

namespace rtfx {

/// A path through the graph, read off its arcs.
struct WfstPath {
  std::vector<int32_t> words, word_frames;    // frame of the arc with the word; of the last frame
                                              // before it where that arc is non-emitting
  std::vector<int32_t> tokens, token_frames;  // spellings of the words, in token ids
  double cost = 0;                            // what the search minimised
  bool reached_final = false;  // else no token ended in a final state: the best of all tokens
  bool alive = true;           // false: no path had a finite cost; the rest means nothing
};

/// Fills words, tokens and their frames. `arcs`: numbers of the path's arcs in their order.
/// A token begins where an emitting arc other than blank's goes to another state; one that stays
/// repeats the token.
void read_path(const GraphView& graph, std::span<const int32_t> arcs, WfstPath& path);

}  // namespace rtfx
