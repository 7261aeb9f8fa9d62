// CTC with a lexicon and a language model over words: Viterbi beam search over a decoding graph on
// the CPU, with one utterance for each thread. algorithms/shared/wfst/search.h has the objective
// and the phases of a frame:
//
//   best path = argmin over paths pi of   sum over arcs a of pi of cost(a)
//                                       - sum over emitting arcs a of pi of lp[t, column(a)]
//                                       + final cost of the end of pi
#pragma once

#include <optional>
#include <vector>

#include "algorithms/decoder_base.h"
#include "algorithms/decoders/wfst/ctc_wfst_cpu/viterbi.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/open_streams.h"
#include "algorithms/shared/wfst/search.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "algorithms/shared/wfst/wfst_options.h"
#include "algorithms/streams.h"

namespace rtfx {

/// Streams that are searched by threads of the CPU. advance() searches a piece per thread.
class CpuStreams : public StreamSearch {
 public:
  /// `word_costs` are the default of streams that are opened without word costs. `threads`, at
  /// least one, search.
  CpuStreams(WfstGraph graph, float beam, int64_t max_active, std::vector<float> word_costs,
             int64_t threads);

  int64_t open(std::optional<std::vector<float>> word_costs) override;
  void advance(std::span<const WfstPiece> pieces) override;
  WfstPath partial(int64_t stream) override;
  WfstPath finish(int64_t stream) override;
  void close(int64_t stream) override { streams_.remove(stream); }

 private:
  struct Stream {
    std::vector<float> word_costs;
    ViterbiState state;
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
  /// expanded_tokens, scanned_arcs and kept_tokens are sums over all frames. Others: host_reads.
  Counters counters() const override { return counters_; }
  std::vector<std::string> boosted_words() const override { return boosting_.words; }

  /// Returns the best path of each row. lp [B, T', V+1] float32 holds scaled log-probabilities,
  /// contiguous, on the CPU. `lengths` has the frames of each row. `word_costs` has the result of
  /// word_costs() (wfst_options.h) for each row, which is empty if no word is boosted; without any,
  /// the option "boost" applies to all rows.
  std::vector<WfstPath> search(const at::Tensor& lp, const std::vector<int64_t>& lengths,
                               std::span<const std::vector<float>> word_costs = {});
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override;
  /// Returns the best path of up to options().nbest word sequences of each row, search()'s first.
  std::vector<std::vector<WfstPath>> search_best(const at::Tensor& lp,
                                                 const std::vector<int64_t>& lengths);
  std::vector<WordLattice> lattices(const EncodedBatch& batch) override;
  const WfstGraph& graph() const override { return *graph_; }
  /// Returns the value of the option "threads", or the number of LibTorch's threads if that is
  /// less.
  int64_t threads() const;

 private:
  void count(const std::vector<ViterbiCounts>& rows);

  std::shared_ptr<const AcousticModel> model_;
  std::optional<WfstGraph> graph_;
  WordBoosting boosting_;
  std::vector<ViterbiSearch> searches_;  // one per thread
  HostReads reads_;
  Counters counters_;
};

}  // namespace rtfx
