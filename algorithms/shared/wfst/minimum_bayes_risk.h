// The words of a lattice with the fewest errors to be expected, and how sure each of them is: Xu,
// Povey, Mangu, Zhu, "Minimum Bayes Risk decoding and system combination based on a recursion for
// edit distance" (2011).
//
//   W* = argmin over R of  sum over paths P of p(P) d(words of P, R),   d: edit distance
//
// Their recursion over the lattice gives an upper bound of the sum, and by its alignments to each
// place of R, between and beside its words too, what paths have there. R begins as the best path's
// words and becomes what is most probable at each place, as long as the bound falls. So it is a
// local minimum of the bound, and now and then a path has fewer errors to be expected.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/shared/wfst/word_lattice.h"

namespace rtfx {

struct MbrWord {
  int32_t word;
  double confidence;  // p of the word at its place
  double begin, end;  // frames: means over the arcs that have it there, weighted by probability
};

struct MbrResult {
  std::vector<MbrWord> words;
  double expected_errors = 0;  // the bound, in words
};

/// Of a lattice with states. Time: arcs times words of the result, some times.
MbrResult minimum_bayes_risk(const WordLattice& lattice, const LatticeScales& scales);

}  // namespace rtfx
