// Minimum Bayes risk: the words of a lattice with the least expected number of errors, and a
// confidence for each (Xu, Povey, Mangu, Zhu, "Minimum Bayes Risk decoding and system combination
// based on a recursion for edit distance", 2011).
//
//   W* = argmin over R of  sum over paths P of p(P) d(words of P, R),   d: edit distance
//
// Their recursion over the lattice gives an upper bound of the sum. Its alignments say which words
// the paths have at each position of R: at its words, and in the gaps between and beside them. R
// begins as the words of the best path, and then takes the most probable word at each position as
// long as the bound falls. The result is a local minimum of the bound, so that now and then a path
// has fewer expected errors.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/shared/wfst/word_lattice.h"

namespace rtfx {

struct MbrWord {
  int32_t word;
  double confidence;  // probability of the word at its position
  double begin, end;  // frames: means over the arcs with the word there, weighted by probability
};

struct MbrResult {
  std::vector<MbrWord> words;
  double expected_errors = 0;  // the upper bound, in words
};

/// The lattice must have states. The time is a few times arcs times words of the result.
MbrResult minimum_bayes_risk(const WordLattice& lattice, const LatticeScales& scales);

}  // namespace rtfx
