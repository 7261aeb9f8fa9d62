// The paths near the best one: a lattice of the search's tokens, and its n best word sequences.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "algorithms/shared/wfst/search.h"

namespace rtfx {

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
