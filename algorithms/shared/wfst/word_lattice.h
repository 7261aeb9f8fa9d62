// Lattices of words: how they are made from the lattice of a search's tokens, the posterior
// probabilities of their arcs and words, and the text formats of other programs.
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

/// An acyclic graph of words. States are in topological order: 0 is the start, the last one is the
/// end, and an arc leads to a higher state. Each arc has one word. It lasts from the frame at which
/// the search's path has that word to the frame of the path's next word. The first arc of a path
/// may have no word (word 0), for the frames before its first word. If the decoding graph has the
/// word on a non-emitting arc, its frame is the frame after that arc, and such an arc may last no
/// frame. The cost of a path is the sum over its arcs.
struct WordLattice {
  struct Arc {
    int32_t from = 0, to = 0;
    int32_t word = 0;          // 1..W; 0: none
    double graph_cost = 0;     // -ln p of lexicon and language model, with boosts and final cost
    double acoustic_cost = 0;  // -ln p of the emissions, not scaled
    size_t first_label = 0;    // index in `labels`, which has one for each frame of the arc
    auto order() const { return std::tuple(from, to, word); }
  };

  std::vector<int32_t> frame;   // [states] rising from 0 to the utterance's frames; empty: no path
  std::vector<Arc> arcs;        // sorted by order(), no two equal
  std::vector<int32_t> labels;  // columns of the emissions

  int32_t states() const { return static_cast<int32_t>(frame.size()); }
  /// Returns the labels on the frames of an arc.
  std::span<const int32_t> labels_of(const Arc& arc) const;
};

/// The inputs of a search that its costs came from.
struct SearchScores {
  const float* lp = nullptr;  // rows of scaled log-probabilities, `stride` floats apart
  int64_t stride = 0;
  double acoustic_scale = 1;
  std::span<const float> word_costs;  // see ViterbiSearch::start()
  bool reached_final = false;         // true: final costs count
};

/// Returns all paths of the lattice that cost up to its beam more than the best one. Among paths
/// with the same words at the same tokens only the best is kept, so that costs belong to best
/// alignments. The same words at other times are other paths. The time is proportional to the
/// number of states times the tokens within the beam that a word reaches.
WordLattice word_lattice(const GraphView& graph, const WfstLattice& lattice,
                         std::span<const WfstLattice::End> ends, const SearchScores& scores);

/// Factors of the two costs. Equal factors below 1 make alternatives more probable.
struct LatticeScales {
  double graph = 1, acoustic = 1;

  double cost(const WordLattice::Arc& arc) const {
    return graph * arc.graph_cost + acoustic * arc.acoustic_cost;
  }
};

/// How probable the arcs of a lattice are, given that one of its paths is right. Forward-backward
/// sums in the log semiring, in double precision, give them:
///
///   p(path) = exp(-cost(path)) / sum over all paths of exp(-cost)
///   cost    = graph * graph_cost + acoustic * acoustic_cost
struct LatticePosteriors {
  std::vector<double> forward;  // [states] ln of the sum of exp(-cost) over paths from the start
  std::vector<double> arcs;     // [arcs] p(arc is on the path)

  /// Returns ln of the sum over all paths.
  double total() const { return forward.back(); }
};

/// Returns the posteriors of a lattice, which must have states.
LatticePosteriors lattice_posteriors(const WordLattice& lattice, const LatticeScales& scales);

struct WordPosterior {
  int32_t word;  // 0: before the first word
  double probability;
};

/// Returns the words that may be spoken in each frame, the most probable first, and the lower id
/// first among equal ones. The probabilities of a frame add up to 1.
std::vector<std::vector<WordPosterior>> words_by_frame(const WordLattice& lattice,
                                                       const LatticePosteriors& posteriors);

/// Returns the numbers of the arcs of the path with the least cost.
std::vector<size_t> best_arcs(const WordLattice& lattice, const LatticeScales& scales);

/// Returns an archive entry in text form, as Kaldi's `lattice-copy ark:- ark,t:-` writes a
/// CompactLattice. It has the key, a line "from to word graph_cost,acoustic_cost,labels" for each
/// arc, a line for the end, and an empty line. Words are numbers. The acoustic cost is not scaled,
/// as in Kaldi. Each frame has one label, and "_" joins them; a label is token id + 1, or V + 1 for
/// blank. `key` is not empty and has no white space.
std::string kaldi_text(const WordLattice& lattice, std::string_view key);

/// Returns the input of OpenFst's `fstcompile --acceptor --isymbols=words.txt` (standard arcs):
/// lines "from to word cost", and one for the end. `scales` weights the two costs.
std::string openfst_text(const WordLattice& lattice, const WfstGraph& graph,
                         const LatticeScales& scales);

/// Returns the symbol table of both formats: a line "word number" for each word; <eps> is 0.
std::string symbol_table(const WfstGraph& graph);

// Minimum Bayes risk decoding finds the words of a lattice with the least expected number of
// errors, and a confidence for each. It is described by Xu, Povey, Mangu, Zhu, "Minimum Bayes Risk
// decoding and system combination based on a recursion for edit distance", 2011.
//
//   W* = argmin over R of  sum over paths P of p(P) d(words of P, R),   d: edit distance
//
// Their recursion over the lattice gives an upper bound of the sum. Its alignments say which words
// the paths have at each position of R: at its words, and in the gaps between and beside them. R
// begins as the words of the best path, and then takes the most probable word at each position as
// long as the bound falls. The result is a local minimum of the bound, so that now and then a path
// has fewer expected errors.

struct MbrWord {
  int32_t word;
  double confidence;  // probability of the word at its position
  // Frames: means over the arcs with the word there, weighted by probability. Words are in order
  // and do not overlap. Where two means do, the words share the time of both in proportion to their
  // lengths.
  double begin, end;
};

struct MbrResult {
  std::vector<MbrWord> words;
  double expected_errors = 0;  // the upper bound, in words
};

/// Returns the result for a lattice, which must have states. The time is a small multiple of the
/// number of arcs times the number of words in the result.
MbrResult minimum_bayes_risk(const WordLattice& lattice, const LatticeScales& scales);

}  // namespace rtfx
