// A lattice of words, made from the lattice of a search's tokens: what n-best lists, posteriors and
// other programs' formats are read off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "algorithms/shared/wfst/lattice.h"

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

}  // namespace rtfx
