// How probable arcs and words of a lattice are, given that one of its paths is right:
//
//   p(path) = exp(-cost(path)) / sum over all paths,   cost = graph * graph_cost + acoustic *
//   acoustic_cost
//
// by forward-backward sums in the log semiring, in double.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/shared/wfst/word_lattice.h"

namespace rtfx {

/// Factors of the two costs. Equal factors below 1 make alternatives more probable.
struct LatticeScales {
  double graph = 1, acoustic = 1;

  double cost(const WordLattice::Arc& arc) const {
    return graph * arc.graph_cost + acoustic * arc.acoustic_cost;
  }
};

struct LatticePosteriors {
  std::vector<double>
      forward;               // [states] ln of the sum of exp(-cost) over the paths from the start
  std::vector<double> arcs;  // [arcs] p(arc is on the path)

  /// ln of the sum over all paths.
  double total() const { return forward.back(); }
};

/// Of a lattice with states.
LatticePosteriors lattice_posteriors(const WordLattice& lattice, const LatticeScales& scales);

struct WordPosterior {
  int32_t word;  // 0: before the first word
  double probability;
};

/// Of each frame the words that may be said in it, the most probable first (of equal ones the lower
/// id). Their probabilities add up to 1.
std::vector<std::vector<WordPosterior>> words_by_frame(const WordLattice& lattice,
                                                       const LatticePosteriors& posteriors);

/// The path of least cost: numbers of its arcs.
std::vector<size_t> best_arcs(const WordLattice& lattice, const LatticeScales& scales);

}  // namespace rtfx
