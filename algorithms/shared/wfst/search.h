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
#include <tuple>
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

// The paths near the best one: a lattice of the search's tokens, and its n best word sequences.

/// Tokens, and the links between them that paths near the best one take. A token is a state at a
/// frame; tokens are numbered in any order.
///
///   slack of a link = its cost - that of the best link into the same token
///
/// where the cost is that of the best path that ends with the link. A path costs more than the best
/// one by the sum of its slacks, its end's included. Links with a slack above the lattice's beam
/// are left out. Every token but the start has a link of slack 0 into it; the start has none.
struct WfstLattice {
  struct Link {
    int32_t to, from;  // tokens
    int32_t arc;
    float slack;

    /// The best one of each token first.
    auto order() const { return std::tuple(to, slack, arc); }
  };
  struct End {
    int32_t token;
    float slack;
  };

  float beam = 0;
  std::vector<size_t> first_link;  // [tokens + 1] in `links`
  std::vector<Link> links;         // in their order()

  size_t tokens() const { return first_link.empty() ? 0 : first_link.size() - 1; }

  /// `count` more tokens, with the links into them in any order.
  void add_tokens(int64_t count, std::vector<Link> into);
};

/// The best path of each word sequence, up to `count` of them and within the lattice's beam, in the
/// order of their costs; of equal costs, the one that keeps to better links first. `ends`: where
/// paths may end, the best first. `best`: the path that will be the first.
std::vector<WfstPath> best_paths(const GraphView& graph, const WfstLattice& lattice,
                                 std::span<const WfstLattice::End> ends, const WfstPath& best,
                                 int64_t count);

}  // namespace rtfx
