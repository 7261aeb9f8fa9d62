// Viterbi beam search of one utterance over a static graph (Mohri et al. 2008): the search of
// algorithms/shared/wfst/search.h, written to be read. It is the reference of the searches on a
// GPU.
#pragma once

#include <span>
#include <vector>

#include "algorithms/shared/wfst/search.h"
#include "algorithms/shared/wfst/word_lattice.h"

namespace rtfx {

/// Work done so far.
struct ViterbiCounts {
  int64_t expanded_tokens = 0, scanned_arcs = 0, kept_tokens = 0;
};

/// An utterance that is being searched: its tokens, and the paths behind them. Only ViterbiSearch
/// writes it. What no token's path uses any more is dropped now and then, so that an endless stream
/// needs the memory of its tokens and of one path.
struct ViterbiState {
  /// The best path into a state at a frame.
  struct Token {
    int32_t state = 0;
    float cost = 0;         // the least of a frame is 0
    int32_t arc = -1;       // the last of the path; -1 at the start
    int32_t previous = -1;  // index in `traces` of the token before
  };
  struct Trace {
    int32_t arc, previous;
  };

  std::vector<Token> tokens;  // of the last frame
  std::vector<Trace> traces;  // those of all frames; the last ones are of `tokens`
  size_t kept_traces = 0;     // how many were left when some were dropped the last time
  double offset = 0;          // what has been subtracted from all costs
  std::span<const float> word_costs;
  ViterbiCounts counts;

  size_t first_trace() const { return traces.size() - tokens.size(); }  // of tokens[0]
};

/// Holds what a search needs within a frame: 4 bytes per state of the graph, and the memory of the
/// fullest frame so far. One thread at a time may use it, for any number of utterances, one after
/// the other or frame by frame.
class ViterbiSearch {
 public:
  /// The graph must outlive the search.
  ViterbiSearch(const GraphView& graph, float beam, int64_t max_active);

  /// An utterance before its first frame. `word_costs`: nothing, or W + 1 numbers that are added to
  /// the cost of an arc with that word ([0] is not read); negative ones favour a word. They must
  /// outlive the state.
  ViterbiState start(std::span<const float> word_costs = {});

  /// The next frames. lp: `frames` rows of graph.columns scaled log-probabilities, `stride` floats
  /// apart; finite, -infinity, or NaN, which no path takes. In how many calls an utterance comes
  /// changes nothing.
  void advance(ViterbiState& utterance, const float* lp, int64_t frames, int64_t stride);

  /// The best path after the frames so far: as if they were all (final states first), ...
  WfstPath finish(const ViterbiState& utterance) const { return best_path(utterance, true); }
  /// ... or as if more came: the token of least cost, whether its state is final or not. Its last
  /// words may change with later frames.
  WfstPath partial(const ViterbiState& utterance) const { return best_path(utterance, false); }

  /// All of an utterance at once.
  WfstPath run(const float* lp, int64_t frames, int64_t stride,
               std::span<const float> word_costs = {});
  /// The same with a lattice of paths that cost up to `lattice_beam` more: the best path of each
  /// of up to `count` word sequences, the first one being run()'s. None where no path gets through.
  std::vector<WfstPath> run_best(const float* lp, int64_t frames, int64_t stride,
                                 std::span<const float> word_costs, int64_t count,
                                 float lattice_beam);
  /// The same lattice as words, with graph costs apart from acoustic ones; `acoustic_scale`: what
  /// lp was scaled by. Without states where no path gets through.
  WordLattice run_lattice(const float* lp, int64_t frames, int64_t stride,
                          std::span<const float> word_costs, float lattice_beam,
                          double acoustic_scale);
  /// Of the last run(), run_best() or run_lattice().
  const ViterbiCounts& counts() const { return counts_; }

 private:
  using Token = ViterbiState::Token;
  struct Candidate {
    float cost;
    int32_t arc, previous;
  };

  ViterbiState run_into(WfstLattice& lattice, const float* lp, int64_t frames, int64_t stride,
                        std::span<const float> word_costs);
  float frontier_cutoff(const std::vector<Token>& tokens);
  void expand(ViterbiState& u, const float* lp);
  void reach(ViterbiState& u, float cost, int32_t arc, int32_t previous);
  void follow_nonemitting(ViterbiState& u, float cut);
  void finish_frame(ViterbiState& u, float cut);
  void add_to_lattice(const ViterbiState& u, float cut);
  std::vector<WfstLattice::End> lattice_ends(const ViterbiState& u, bool final) const;
  void drop_unused_traces(ViterbiState& u);
  WfstPath best_path(const ViterbiState& u, bool at_end) const;

  GraphView graph_;
  float beam_;
  size_t max_active_;
  ViterbiCounts counts_;

  // Of the frame that is being searched.
  std::vector<int32_t> token_of_;  // [states] index of a state's token, -1: none
  size_t first_trace_ = 0;         // where the frame's traces begin
  std::vector<Candidate> candidates_;
  std::vector<int32_t> unfollowed_;
  std::vector<float> costs_;
  std::vector<int32_t> new_index_;
  size_t last_first_trace_ = 0;     // where those of the frame before begin
  WfstLattice* lattice_ = nullptr;  // of the utterance, where one is wanted;
  int32_t lattice_last_ = 0;        // in it, the last frame's first token
};

}  // namespace rtfx
