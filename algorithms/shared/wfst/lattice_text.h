// Lattices of words as text that other programs read.
#pragma once

#include <string>
#include <string_view>

#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/lattice_posteriors.h"
#include "algorithms/shared/wfst/word_lattice.h"

namespace rtfx {

/// An entry of an archive in text form, as Kaldi's `lattice-copy ark:- ark,t:-` writes a
/// CompactLattice: the key, a line "from to word graph_cost,acoustic_cost,labels" for each arc, one
/// for the end, an empty one. Words are numbers. The acoustic cost is not scaled, as in Kaldi;
/// labels are those of a frame each, joined by "_", and numbered as a graph's: token id + 1, blank
/// V +
/// 1. `key`: not empty, without white space.
std::string kaldi_text(const WordLattice& lattice, std::string_view key);

/// What OpenFst's `fstcompile --acceptor --isymbols=words.txt` reads (standard arcs): lines "from
/// to word cost", one for the end. The cost is that of `scales`.
std::string openfst_text(const WordLattice& lattice, const WfstGraph& graph,
                         const LatticeScales& scales);

/// The table of symbols of both: lines "word number", of all words of the graph; <eps> is 0.
std::string symbol_table(const WfstGraph& graph);

}  // namespace rtfx
