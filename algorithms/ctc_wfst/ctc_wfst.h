// CTC with a lexicon and a language model over words: token passing over a decoding graph on a GPU,
// an utterance per block of threads. Objective and semantics: algorithms/wfst/search.h, so that
// results equal those of ctc_wfst_cpu for the same log-probabilities. The loop over frames is in
// the kernel, where neither the host nor another kernel has a part in it; back-trace by index.
// Token passing on GPUs: Chong et al., "A Fully Data Parallel WFST-based Large Vocabulary
// Continuous Speech Recognition on a Graphics Processing Unit", 2009; Chen et al., "A GPU-based
// WFST Decoder with Exact Lattice Generation", 2018.
#pragma once

#include <optional>
#include <vector>

#include "algorithms/common/host_read.h"
#include "algorithms/ctc_wfst/passing_paths.h"
#include "algorithms/decoder.h"
#include "algorithms/wfst/wfst_options.h"

namespace rtfx {

/// Results and their marks are as those of ctc_wfst_cpu, and do not depend on the batch or on the
/// timing of threads. decode() waits for the GPU three times: for the marks of rows, for the ends
/// of the paths, for their arcs; once more whenever the memory of traces has to grow.
class CtcWfst : public Decoder {
 public:
  explicit CtcWfst(WfstOptions options) : options_(std::move(options)) {}

  Description describe() const override;
  nlohmann::json options() const override { return wfst_options().resolved(options_); }
  /// Copies the graph to the GPU. Throws UserError without a GPU, and where the graph and a search
  /// do not fit into its memory, with the sizes.
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  /// kept_tokens: sum over all frames; lanes: utterances that were searched at once; host_reads.
  Counters counters() const override { return counters_; }

  /// The best path of each row. lp [B, T', V+1] float32 on the GPU, contiguous: scaled
  /// log-probabilities; lengths [B] int64, there too: frames of each row.
  std::vector<WfstPath> search(const at::Tensor& lp, const at::Tensor& lengths);

 private:
  at::Tensor upload(const void* data, std::vector<int64_t> shape, at::ScalarType type) const;
  void make_lanes(int64_t rows);
  void make_traces(int64_t capacity);

  WfstOptions options_;
  std::shared_ptr<const AcousticModel> model_;
  std::optional<WfstGraph> graph_;
  std::vector<at::Tensor> graph_memory_;
  PassingGraph passing_graph_;
  at::Tensor word_costs_;  // [W + 1] float32, undefined without the option "boost"
  at::Tensor best_, state_, cost_, slot_, traces_;
  PassingLanes lanes_;
  HostReads reads_;
  Counters counters_;
};

}  // namespace rtfx
