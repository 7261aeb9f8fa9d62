// CTC with a lexicon and a language model over words: Viterbi beam search over a decoding graph on
// the CPU, with one utterance for each thread. algorithms/shared/wfst/search.h has the objective
// and the phases of a frame:
//
//   best path = argmin over paths pi of   sum over arcs a of pi of cost(a)
//                                       - sum over emitting arcs a of pi of lp[t, column(a)]
//                                       + final cost of the end of pi
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/search.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "algorithms/shared/wfst/wfst_options.h"
#include "algorithms/shared/wfst/word_lattice.h"
#include "algorithms/streams.h"

namespace rtfx {

// The search of one utterance over a static graph (Mohri et al. 2008), written to be easy to read.
// It is the reference of the searches on a GPU.

/// Counts the work done so far.
struct ViterbiCounts {
  int64_t expanded_tokens = 0, scanned_arcs = 0, kept_tokens = 0;
};

/// The state of a search: the tokens of an utterance, and the paths that led to them. Only
/// ViterbiSearch writes it. Now and then it drops the traces that no path uses any more, so that an
/// endless stream needs the memory of its tokens and of one path.
struct ViterbiState {
  /// The best path into a state at a frame.
  struct Token {
    int32_t state = 0;
    float cost = 0;         // the least cost of a frame is 0
    int32_t arc = -1;       // last arc of the path; -1 at the start
    int32_t previous = -1;  // index in `traces` of the token before
  };
  struct Trace {
    int32_t arc, previous;
  };

  std::vector<Token> tokens;  // tokens of the last frame
  std::vector<Trace> traces;  // traces of all frames; the last ones belong to `tokens`
  size_t kept_traces = 0;     // number of traces after unused ones were dropped the last time
  double offset = 0;          // sum of what was subtracted from all costs
  std::span<const float> word_costs;
  ViterbiCounts counts;

  size_t first_trace() const { return traces.size() - tokens.size(); }  // trace of tokens[0]
};

/// Holds the memory that a search needs within a frame: 4 bytes for each state of the graph, and
/// the memory of the fullest frame so far. Only one thread at a time may use it. It serves any
/// number of utterances, one after the other or frame by frame.
class ViterbiSearch {
 public:
  /// The graph must outlive the search.
  ViterbiSearch(const GraphView& graph, float beam, int64_t max_active);

  /// Returns the state of an utterance before its first frame. `word_costs` is empty, or has W + 1
  /// numbers that are added to the cost of an arc with that word. [0] is not read, and negative
  /// numbers favour a word. The numbers must outlive the state.
  ViterbiState start(std::span<const float> word_costs = {});

  /// Searches the next frames. `lp` has `frames` rows of graph.columns scaled log-probabilities,
  /// `stride` floats apart. They are finite, -infinity, or NaN, which no path uses. The result does
  /// not depend on how an utterance is divided into calls.
  void advance(ViterbiState& utterance, const float* lp, int64_t frames, int64_t stride);

  /// Returns the best path of an utterance that ends here: final states come first.
  WfstPath finish(const ViterbiState& utterance) const { return best_path(utterance, true); }
  /// Returns the best path so far, in the expectation of more frames: the token of least cost,
  /// whether its state is final or not. Later frames may change its last words.
  WfstPath partial(const ViterbiState& utterance) const { return best_path(utterance, false); }

  /// Searches a whole utterance.
  WfstPath run(const float* lp, int64_t frames, int64_t stride,
               std::span<const float> word_costs = {});
  /// Searches a whole utterance and keeps a lattice of paths that cost up to `lattice_beam` more
  /// than the best. Returns the best path of up to `count` word sequences, the path of run() first.
  /// The list is empty if there is no path.
  std::vector<WfstPath> run_best(const float* lp, int64_t frames, int64_t stride,
                                 std::span<const float> word_costs, int64_t count,
                                 float lattice_beam);
  /// Returns the lattice of run_best() as a lattice of words, with graph costs apart from acoustic
  /// ones. `acoustic_scale` is the factor that `lp` was scaled by. The lattice has no states if
  /// there is no path.
  WordLattice run_lattice(const float* lp, int64_t frames, int64_t stride,
                          std::span<const float> word_costs, float lattice_beam,
                          double acoustic_scale);
  /// Returns the counts of the last run(), run_best() or run_lattice().
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

  // The frame that is being searched:
  std::vector<int32_t> token_of_;  // [states] index of a state's token, -1: none
  size_t first_trace_ = 0;         // index of the frame's first trace
  std::vector<Candidate> candidates_;
  std::vector<int32_t> unfollowed_;
  std::vector<float> costs_;
  std::vector<int32_t> new_index_;
  size_t last_first_trace_ = 0;     // index of the first trace of the frame before
  WfstLattice* lattice_ = nullptr;  // lattice of the utterance, null if none is wanted
  int32_t lattice_last_ = 0;        // the lattice's first token of the last frame
};

/// Streams that are searched by threads of the CPU. advance() searches a piece per thread.
class CpuStreams : public StreamSearch {
 public:
  /// `word_costs` are the default of streams that are opened without word costs. `threads` is the
  /// number of threads that search, at least one.
  CpuStreams(WfstGraph graph, float beam, int64_t max_active, std::vector<float> word_costs,
             int64_t threads);

  int64_t open(std::optional<std::vector<float>> word_costs) override;
  void set_word_costs(int64_t stream, std::optional<std::vector<float>> word_costs) override;
  void advance(std::span<const WfstPiece> pieces) override;
  WfstPath partial(int64_t stream) override;
  WfstPath finish(int64_t stream) override;
  void close(int64_t stream) override { streams_.remove(stream); }

 private:
  struct Stream {
    std::vector<float> word_costs;
    ViterbiState state;
    bool has_frames = false;
  };

  WfstGraph graph_;
  std::vector<float> word_costs_;
  std::vector<ViterbiSearch> searches_;  // one per thread
  OpenStreams<Stream> streams_;
};

/// The tokens of a result spell the words of the best path. If the path does not end in a final
/// state, its last word may be incomplete. The frame of a token is its first frame. The score is
/// minus the cost of the path. A row with a NaN, or without a path, is empty and marked `nan`. For
/// a model on a GPU, decode() waits once for the log-probabilities. Results do not depend on the
/// number of threads or on the other rows.
class CtcWfstCpu : public DecoderBase<WfstOptions, &cpu_wfst_options>, public LatticeSource {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override;
  /// Maps the graph, and makes one search for each thread.
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  /// expanded_tokens, scanned_arcs and kept_tokens are sums over all frames. not_final is the
  /// number of rows whose path ends in no final state. The other counter is host_reads.
  Counters counters() const override { return counters_; }
  std::vector<std::string> boosted_words() const override { return boosting_.words(); }
  std::shared_ptr<const CompiledBias> compile_bias(const BiasRequest& request) const override {
    return boosting_.compile(request);
  }

  /// Returns the best path of each row. lp [B, T', V+1] float32 holds scaled log-probabilities,
  /// contiguous, on the CPU. `lengths` has the frames of each row, and `biases` is as in
  /// EncodedBatch.
  std::vector<WfstPath> search(const at::Tensor& lp, const std::vector<int64_t>& lengths,
                               const RowBiases& biases = {});
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override;
  /// Returns the best path of up to options().nbest word sequences of each row, search()'s first.
  std::vector<std::vector<WfstPath>> search_best(const at::Tensor& lp,
                                                 const std::vector<int64_t>& lengths,
                                                 const RowBiases& biases = {});
  std::vector<WordLattice> lattices(const EncodedBatch& batch) override;
  const WfstGraph& graph() const override { return *graph_; }
  /// Returns the number of threads that search: the option "threads", but at most the number of
  /// LibTorch's threads. The value 0 of the option stands for all of them.
  int64_t threads() const;

 private:
  using RowSearch = std::function<void(ViterbiSearch& search, size_t row, const float* lp,
                                       std::span<const float> word_costs)>;
  std::vector<ViterbiCounts> search_rows(const at::Tensor& lp, const std::vector<int64_t>& lengths,
                                         const RowBiases& biases, const RowSearch& search);
  void count(const std::vector<ViterbiCounts>& rows);

  std::shared_ptr<const AcousticModel> model_;
  std::optional<WfstGraph> graph_;
  WordBoosting boosting_;
  std::vector<ViterbiSearch> searches_;  // one per thread
  HostReads reads_;
  Counters counters_;
};

}  // namespace rtfx
