#include "algorithms/ctc_wfst_cpu/ctc_wfst_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "algorithms/common/batched_hypotheses.h"
#include "algorithms/common/transducer.h"
#include "algorithms/registry.h"
#include "algorithms/wfst/wfst_batch.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"

namespace rtfx {

Description CtcWfstCpu::describe() const {
  return {"ctc_wfst_cpu", Head::ctc, Description::Exactness::approximate, {"ctc"}, "logprob"};
}

void CtcWfstCpu::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  graph_ = load_graph(options_, *model);
  word_costs_ = boosted_word_costs(options_, *graph_);
  model_ = std::move(model);
  searches_.clear();
  for (int i = 0; i < at::get_num_threads(); ++i)
    searches_.emplace_back(graph_->view(), static_cast<float>(options_.beam), options_.max_active);
}

Hypotheses CtcWfstCpu::decode(const EncodedBatch& batch) {
  reads_.reset();
  at::Tensor lp, nan;
  {
    const ScopedRange range("decode.project");
    lp = scaled_log_probs(*model_, batch, options_.acoustic_scale);
    if (lp.is_cuda()) {
      const at::Tensor host =
          at::empty(lp.sizes(), lp.options().device(at::kCPU).pinned_memory(true));
      reads_.copy(lp, host);
      lp = host;
    }
    // A NaN or +infinity makes the whole frame NaN.
    nan = rows_with_nan(lp.narrow(2, 0, 1), at::tensor(batch.lengths_host, at::kLong));
  }
  const ScopedRange range("decode.loop");
  const auto paths = search(lp, batch.lengths_host);
  counters_["host_reads"] = reads_.count();
  return wfst_hypotheses(paths, nan, batch.frames.device());
}

std::vector<WfstPath> CtcWfstCpu::search(const at::Tensor& lp, const std::vector<int64_t>& lengths,
                                         std::span<const std::vector<float>> word_costs) {
  const float* emissions = lp.const_data_ptr<float>();
  const int64_t columns = lp.size(2), row = lp.size(1) * columns;
  // Long utterances first, so that none is left for the end.
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::vector<WfstPath> paths(lengths.size());
  std::vector<ViterbiCounts> counts(lengths.size());
  std::atomic<size_t> next = 0;
  at::parallel_for(0, static_cast<int64_t>(searches_.size()), 1, [&](int64_t begin, int64_t) {
    ViterbiSearch& search = searches_[static_cast<size_t>(begin)];
    for (size_t i = next++; i < order.size(); i = next++) {
      const size_t b = order[i];
      paths[b] = search.run(emissions + static_cast<int64_t>(b) * row, lengths[b], columns,
                            word_costs.empty() ? word_costs_ : word_costs[b]);
      counts[b] = search.counts();
    }
  });
  counters_.clear();
  for (const ViterbiCounts& c : counts) {
    counters_["expanded_tokens"] += c.expanded_tokens;
    counters_["scanned_arcs"] += c.scanned_arcs;
    counters_["kept_tokens"] += c.kept_tokens;
  }
  return paths;
}

namespace {

const RegisterDecoder registered{
    {"ctc_wfst_cpu", "Viterbi beam search over a graph of lexicon and word LM, on the CPU",
     wfst_options().info(), [](const nlohmann::json& options, std::string_view where) {
       return std::make_unique<CtcWfstCpu>(wfst_options().fill(options, where));
     }}};

}  // namespace
}  // namespace rtfx
