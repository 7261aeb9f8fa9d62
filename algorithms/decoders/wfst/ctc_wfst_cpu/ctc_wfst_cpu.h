// CTC with a lexicon and a language model over words: Viterbi beam search over a decoding graph on
// the CPU, an utterance per thread. Objective and semantics: algorithms/shared/wfst/search.h.
#pragma once

#include <optional>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/decoders/wfst/ctc_wfst_cpu/viterbi.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/search.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "algorithms/shared/wfst/wfst_options.h"

namespace rtfx {

/// Tokens: the spellings of the best path's words, so that their text is the words'; at the end of
/// a path without a final state the last word may be incomplete. Frame of a token: its first.
/// Score: minus the path's cost. A row with a NaN, or that no path gets through, is empty and
/// marked `nan`. For a model on a GPU, decode() waits once for the log-probabilities. Results do
/// not depend on threads or on the other rows.
class CtcWfstCpu : public Decoder, public LatticeSource {
 public:
  explicit CtcWfstCpu(WfstOptions options) : options_(std::move(options)) {}

  Description describe() const override;
  nlohmann::json options() const override { return cpu_wfst_options().resolved(options_); }
  /// Maps the graph; one search for each of its threads.
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  /// expanded_tokens, scanned_arcs, kept_tokens: sums over all frames; host_reads.
  Counters counters() const override { return counters_; }
  std::vector<std::string> boosted_words() const override { return boosting_.words; }

  /// The best path of each row. lp [B, T', V+1] float32 on the CPU, contiguous: scaled
  /// log-probabilities; `lengths`: frames of each row. `word_costs`: of each row (word_boost.h), an
  /// empty one where no word is boosted; without any, those of the option "boost" for all rows.
  std::vector<WfstPath> search(const at::Tensor& lp, const std::vector<int64_t>& lengths,
                               std::span<const std::vector<float>> word_costs = {});
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override;
  /// Of each row the best path of up to options().nbest word sequences, the first being search()'s.
  std::vector<std::vector<WfstPath>> search_best(const at::Tensor& lp,
                                                 const std::vector<int64_t>& lengths);
  std::vector<WordLattice> lattices(const EncodedBatch& batch) override;
  const WfstGraph& graph() const override { return *graph_; }
  /// As many as the option says, but no more than LibTorch has.
  int64_t threads() const;

 private:
  void count(const std::vector<ViterbiCounts>& rows);

  WfstOptions options_;
  std::shared_ptr<const AcousticModel> model_;
  std::optional<WfstGraph> graph_;
  WordBoosting boosting_;
  std::vector<ViterbiSearch> searches_;  // one per thread
  HostReads reads_;
  Counters counters_;
};

}  // namespace rtfx
