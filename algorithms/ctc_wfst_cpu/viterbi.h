// Viterbi beam search of one utterance over a static graph (Mohri et al. 2008): the search of
// algorithms/wfst/search.h, written to be read. It is the reference of the searches on a GPU.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "algorithms/wfst/search.h"

namespace rtfx {

/// Work of the last run.
struct ViterbiCounts {
  int64_t expanded_tokens = 0, scanned_arcs = 0, kept_tokens = 0;
};

/// Holds the memory of a search, 4 bytes per state of the graph and what the largest utterance
/// needed; for one thread at a time.
class ViterbiSearch {
 public:
  /// The graph must outlive the search.
  ViterbiSearch(const GraphView& graph, float beam, int64_t max_active);

  /// lp: `frames` rows of graph.columns scaled log-probabilities, `stride` floats apart; finite,
  /// -infinity, or NaN, which no path takes. `word_costs`: nothing, or W + 1 numbers that are
  /// added to the cost of an arc with that word ([0] is not read); negative ones favour a word.
  WfstPath run(const float* lp, int64_t frames, int64_t stride,
               std::span<const float> word_costs = {});

  const ViterbiCounts& counts() const { return counts_; }

 private:
  /// The best path into a state at a frame. `previous`: index in traces_ of the token before.
  struct Token {
    int32_t state = 0;
    float cost = 0;
    int32_t arc = -1;
    int32_t previous = -1;
  };
  struct Trace {
    int32_t arc, previous;
  };
  struct Candidate {
    float cost;
    int32_t arc, previous;
  };

  float cost_of(const GraphArc& arc) const;
  float frontier_cutoff();
  void expand(const float* lp);
  void reach(float cost, int32_t arc, int32_t previous);
  void follow_nonemitting(float cut);
  void finish_frame(float cut);
  WfstPath best_path() const;

  GraphView graph_;
  float beam_;
  size_t max_active_;
  std::span<const float> word_costs_;

  std::vector<Token> tokens_;      // of this frame
  std::vector<int32_t> token_of_;  // [states] index in tokens_, -1: none
  std::vector<Trace> traces_;      // tokens of all frames
  size_t frame_begin_ = 0;         // index in traces_ of tokens_[0]
  double offset_ = 0;              // what has been subtracted from all costs
  std::vector<Candidate> candidates_;
  std::vector<int32_t> unfollowed_;
  std::vector<float> costs_;
  ViterbiCounts counts_;
};

}  // namespace rtfx
