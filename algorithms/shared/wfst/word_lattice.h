// A lattice of words, made from the lattice of a search's tokens: what n-best lists, posteriors and
// other programs' formats are read off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/search.h"

namespace rtfx {

/// An acyclic graph. States are in topological order: 0 is the start, the last one the end, and an
/// arc leads to a higher state. Each arc has one word, from the frame in which the search's path
/// takes it until its next word; the first arc of a path may have none (word 0), for what is before
/// its first word. Where the graph has a word on a non-emitting arc, as behind a spelling that
/// begins another one, that is the frame after it, and such an arc may last no frame. Costs of a
/// path: the sums over its arcs.
struct WordLattice {
  struct Arc {
    int32_t from = 0, to = 0;
    int32_t word = 0;          // 1..W; 0: none
    double graph_cost = 0;     // -ln p of lexicon and language model, with boosts and final cost
    double acoustic_cost = 0;  // -ln p of the emissions, not scaled
    size_t first_label = 0;    // in `labels`: one for each frame of the arc
    auto order() const { return std::tuple(from, to, word); }
  };

  std::vector<int32_t> frame;   // [states] rising from 0 to the utterance's frames; none: no path
  std::vector<Arc> arcs;        // in their order(), no two alike
  std::vector<int32_t> labels;  // columns of the emissions

  int32_t states() const { return static_cast<int32_t>(frame.size()); }
  std::span<const int32_t> labels_of(const Arc& arc) const;
};

/// What a search's costs were made of.
struct SearchScores {
  const float* lp = nullptr;  // rows of scaled log-probabilities, `stride` floats apart
  int64_t stride = 0;
  double acoustic_scale = 1;
  std::span<const float> word_costs;  // as ViterbiSearch::start() takes them
  bool reached_final = false;         // then final costs count
};

/// All paths of the lattice that cost up to its beam more than the best one. Of those that take the
/// same words at the same tokens only the best is kept, so that costs are those of best alignments;
/// the same words with other times are other paths. Time: states times the tokens within the beam
/// that a word reaches.
WordLattice word_lattice(const GraphView& graph, const WfstLattice& lattice,
                         std::span<const WfstLattice::End> ends, const SearchScores& scores);

// How probable arcs and words of a lattice are, given that one of its paths is right:
//
//   p(path) = exp(-cost(path)) / sum over all paths,   cost = graph * graph_cost + acoustic *
//   acoustic_cost
//
// by forward-backward sums in the log semiring, in double.

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

// Lattices of words as text that other programs read.

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
