// The objective of all searches over a decoding graph, and their result: the best path, or the
// n best word sequences from a lattice.
//
//   best path = argmin over paths pi of   sum over arcs a of pi of cost(a)
//                                       - sum over emitting arcs a of pi of lp[t, column(a)]
//                                       + final cost of the end of pi
//
// Here lp[t, k] = acoustic_scale * ln p(k | frame t), and a path has one emitting arc for each
// frame. Costs, beam and score have these scaled units.
//
// A token of the search, as in Kaldi, is a state of the graph at a frame with the cost of the best
// path to it. Tokens of the model's vocabulary occur only as token ids (WfstPath::tokens).
//
// Every search does a frame in these phases:
//
//   1. Each active token (state, cost) whose cost is below the frontier cutoff expands its emitting
//      arcs: c = (cost + cost(a)) - lp. The cutoff is the max_active-th least cost, counted from 0,
//      or +infinity if there are fewer tokens. Tokens of the least cost, 0, always expand.
//   2. With best = min c, arcs with c < best + beam are kept. Among the arcs into one state, the
//      one with the least (c, arc number) is kept.
//   3. Non-emitting arcs are followed under the same bound and rule until nothing changes.
//   4. The least cost is subtracted from all costs.
//
// All sums are float32, in this order and without fused multiply-add, so that all searches agree in
// every bit.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "algorithms/shared/wfst/graph.h"

namespace rtfx {

/// A path through the graph.
struct WfstPath {
  /// The frame of a word is the frame of its arc, or the frame before a non-emitting arc.
  std::vector<int32_t> words, word_frames;
  std::vector<int32_t> tokens, token_frames;  // spellings of the words, in token ids
  double cost = 0;                            // the minimum that the search found
  bool reached_final = false;  // false: no token was in a final state, so the best of all is given
  bool alive = true;           // false: no path had a finite cost, and the other members are unset
};

/// Fills words, tokens and their frames from the numbers of the path's arcs, in their order. A
/// token begins where an emitting arc other than blank's goes to another state or has a word. An
/// arc that stays in its state without a word repeats the token.
void read_path(const GraphView& graph, std::span<const int32_t> arcs, WfstPath& path);

/// A lattice of the tokens of a search: the links between them that paths near the best one use. A
/// token is a state at a frame. Tokens are numbered in any order.
///
///   slack of a link = cost of the link - cost of the best link into the same token
///
/// The cost of a link is the cost of the best path that ends with it. A path costs more than the
/// best one by the sum of its slacks, the slack of its end included. Links with a slack above the
/// lattice's beam are left out. Every token has a link of slack 0 into it, except the start, which
/// has none.
struct WfstLattice {
  struct Link {
    int32_t to, from;  // tokens
    int32_t arc;
    float slack;

    /// Sorts the links by token, the best one of each token first.
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

  /// Adds `count` tokens, with the links into them in any order. Many are sorted by several
  /// threads.
  void add_tokens(int64_t count, std::span<const Link> into);
};

/// Returns the best path of each word sequence, at most `count` within the lattice's beam, sorted
/// by cost. Among equal costs, the path with fewer links that are not the best of their token comes
/// first. `ends` lists where paths may end, the best first. `best` is the path that the first entry
/// will be.
std::vector<WfstPath> best_paths(const GraphView& graph, const WfstLattice& lattice,
                                 std::span<const WfstLattice::End> ends, const WfstPath& best,
                                 int64_t count);

}  // namespace rtfx
