#include "algorithms/decoders/wfst/ctc_lexicon_cpu/ctc_lexicon_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "algorithms/shared/wfst/graph_builder.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

using Options = CtcLexiconCpu::Options;

}  // namespace

const OptionTable<CtcLexiconCpuOptions>& CtcLexiconCpuOptions::table() {
  using O = CtcLexiconCpuOptions;
  static const OptionTable<O> table{{
      option("lexicon", &O::lexicon, "lines of a word and its tokens; may be gzip"),
      option("lm", &O::lm, "ARPA language model over words; may be gzip"),
      option("acoustic_scale", &O::acoustic_scale,
             "factor of log-probabilities; the language model's costs stay as they are", 1e-3, 1e3),
      option("beam", &O::beam, "costs above the best that are kept, in scaled units", 1e-3, 1e9),
      option("beam_size", &O::beam_size, "hypotheses that are kept at a frame", 1),
      option("beam_tokens", &O::beam_tokens, "tokens of a frame that are tried", 1),
      option("threads", &O::threads, "at most so many of the program's threads; 0: all", 0),
  }};
  return table;
}

namespace {
const Register<CtcLexiconCpu> registered{
    "ctc_lexicon_cpu", "prefix beam search with a lexicon and a word LM, without a graph (CPU)"};
}

Description CtcLexiconCpu::describe() const {
  return {"ctc_lexicon_cpu", Head::ctc, Description::Exactness::approximate, {"ctc"}, "logprob"};
}

void CtcLexiconCpu::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  if (!model->tokenizer) {
    throw UserError(options_.lexicon.string(), "cannot be read without the model's tokenizer",
                    "use a checkpoint that holds one");
  }
  const GraphSources sources{options_.lexicon, options_.lm};
  int64_t dropped = 0;
  const Lexicon lexicon = common_lexicon(*model->tokenizer, sources, &dropped);
  const auto backoff = static_cast<int32_t>(lexicon.size()) + 1;
  searches_.clear();
  lm_.emplace(grammar_transducer(options_.lm, word_labels(lexicon), backoff, &dropped), backoff);
  tree_.emplace(lexicon, *lm_);
  model_ = std::move(model);
  const PrefixSearchLimits beam{static_cast<float>(options_.beam), options_.beam_size,
                                options_.beam_tokens};
  const int64_t all = at::get_num_threads();
  const int64_t threads = options_.threads == 0 ? all : std::min(all, options_.threads);
  for (int64_t i = 0; i < threads; ++i) searches_.emplace_back(*tree_, *lm_, beam);
}

Hypotheses CtcLexiconCpu::decode(const EncodedBatch& batch) {
  reads_.reset();
  HostEmissions emissions;
  {
    const ScopedRange range(RangeName::decode_project, batch.frames.size(0));
    emissions = host_emissions(*model_, batch, options_.acoustic_scale, reads_);
  }
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  const float* lp = data_of<float>(emissions.lp);
  const int64_t columns = emissions.lp.size(2), row = emissions.lp.size(1) * columns;
  std::vector<WfstPath> paths(batch.lengths_host.size());
  for_each_utterance(batch.lengths_host, searches_.size(), [&](size_t thread, size_t b) {
    paths[b] = searches_[thread].run(lp + static_cast<int64_t>(b) * row, batch.lengths_host[b],
                                     static_cast<int32_t>(columns));
  });
  const ScopedRange trace_back(RangeName::decode_trace_back);
  return wfst_hypotheses(paths, emissions.nan);
}

}  // namespace rtfx
