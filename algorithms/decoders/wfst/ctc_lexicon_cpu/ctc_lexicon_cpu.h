// CTC with a lexicon and a language model over words, without a decoding graph: prefix beam search
// on the CPU, with one utterance for each thread. prefix_search.h has the algorithm, and
// algorithms/shared/wfst/search.h has the objective. The decoder serves for comparison with the
// searches over graphs.
#pragma once

#include <optional>
#include <vector>

#include "algorithms/decoder_base.h"
#include "algorithms/decoders/wfst/ctc_lexicon_cpu/prefix_search.h"
#include "algorithms/gpu/host_read.h"
#include "base/options.h"

namespace rtfx {

struct CtcLexiconCpuOptions {
  std::filesystem::path lexicon, lm;
  double acoustic_scale = 1 / 0.55;
  double beam = 17;
  int64_t beam_size = 500, beam_tokens = 32;
  int64_t threads = 0;  // upper bound of the number of threads; 0: all threads of LibTorch

  static const OptionTable<CtcLexiconCpuOptions>& table();
};

/// Results and their marks are those of the searches over graphs: tokens spell the words, and the
/// score is minus the cost. For a model on a GPU, decode() waits once for the log-probabilities.
class CtcLexiconCpu : public DecoderBase<CtcLexiconCpuOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override;
  /// Reads lexicon and language model. Throws UserError for bad files and for a model without a
  /// tokenizer.
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  Counters counters() const override { return {{"host_reads", reads_.count()}}; }

 private:
  std::shared_ptr<const AcousticModel> model_;
  std::optional<WordLm> lm_;
  std::optional<LexiconTree> tree_;
  std::vector<PrefixSearch> searches_;  // one per thread
  HostReads reads_;
};

}  // namespace rtfx
