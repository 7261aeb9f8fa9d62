#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "algorithms/shared/wfst/wfst_batch.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

Description CtcWfstCpu::describe() const {
  return {"ctc_wfst_cpu", Head::ctc, Description::Exactness::approximate,
          {"ctc"},        "logprob", /*streams=*/true};
}

void CtcWfstCpu::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  graph_ = load_graph(options_, *model);
  boosting_ = load_boosting(options_, *graph_);
  model_ = std::move(model);
  searches_.clear();
  for (int64_t i = 0; i < threads(); ++i)
    searches_.emplace_back(graph_->view(), static_cast<float>(options_.beam), options_.max_active);
}

int64_t CtcWfstCpu::threads() const {
  const int64_t all = at::get_num_threads();
  return options_.threads == 0 ? all : std::min(all, options_.threads);
}

Hypotheses CtcWfstCpu::decode(const EncodedBatch& batch) {
  reads_.reset();
  HostEmissions emissions;
  {
    const ScopedRange range(RangeName::decode_project, batch.frames.size(0));
    emissions = host_emissions(*model_, batch, options_.acoustic_scale, reads_);
  }
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  std::vector<std::vector<WfstPath>> lists;
  std::vector<WfstPath> paths;
  if (options_.nbest > 1) {
    lists = search_best(emissions.lp, batch.lengths_host);
    WfstPath none;
    none.alive = false;
    for (const auto& list : lists) paths.push_back(list.empty() ? none : list.front());
  } else {
    paths = search(emissions.lp, batch.lengths_host);
  }
  counters_["host_reads"] = reads_.count();
  const ScopedRange trace_back(RangeName::decode_trace_back);
  return wfst_hypotheses(paths, emissions.nan, lists);
}

std::vector<WfstPath> CtcWfstCpu::search(const at::Tensor& lp, const std::vector<int64_t>& lengths,
                                         std::span<const std::vector<float>> word_costs) {
  const float* emissions = data_of<float>(lp);
  const int64_t columns = lp.size(2), row = lp.size(1) * columns;
  std::vector<WfstPath> paths(lengths.size());
  std::vector<ViterbiCounts> counts(lengths.size());
  for_each_utterance(lengths, searches_.size(), [&](size_t thread, size_t b) {
    ViterbiSearch& search = searches_[thread];
    paths[b] = search.run(emissions + static_cast<int64_t>(b) * row, lengths[b], columns,
                          word_costs.empty() ? boosting_.costs : word_costs[b]);
    counts[b] = search.counts();
  });
  count(counts);
  return paths;
}

std::vector<std::vector<WfstPath>> CtcWfstCpu::search_best(const at::Tensor& lp,
                                                           const std::vector<int64_t>& lengths) {
  const float* emissions = data_of<float>(lp);
  const int64_t columns = lp.size(2), row = lp.size(1) * columns;
  std::vector<std::vector<WfstPath>> lists(lengths.size());
  std::vector<ViterbiCounts> counts(lengths.size());
  for_each_utterance(lengths, searches_.size(), [&](size_t thread, size_t b) {
    ViterbiSearch& search = searches_[thread];
    lists[b] =
        search.run_best(emissions + static_cast<int64_t>(b) * row, lengths[b], columns,
                        boosting_.costs, options_.nbest, static_cast<float>(options_.lattice_beam));
    counts[b] = search.counts();
  });
  count(counts);
  return lists;
}

std::vector<WordLattice> CtcWfstCpu::lattices(const EncodedBatch& batch) {
  reads_.reset();
  const auto [lp, nan] = host_emissions(*model_, batch, options_.acoustic_scale, reads_);
  const float* emissions = data_of<float>(lp);
  const bool* damaged = data_of<bool>(nan);
  const int64_t columns = lp.size(2), row = lp.size(1) * columns;
  std::vector<WordLattice> found(batch.lengths_host.size());
  for_each_utterance(batch.lengths_host, searches_.size(), [&](size_t thread, size_t b) {
    if (damaged[b]) return;
    found[b] = searches_[thread].run_lattice(
        emissions + static_cast<int64_t>(b) * row, batch.lengths_host[b], columns, boosting_.costs,
        static_cast<float>(options_.lattice_beam), options_.acoustic_scale);
  });
  return found;
}

void CtcWfstCpu::count(const std::vector<ViterbiCounts>& rows) {
  counters_.clear();
  for (const ViterbiCounts& c : rows) {
    counters_["expanded_tokens"] += c.expanded_tokens;
    counters_["scanned_arcs"] += c.scanned_arcs;
    counters_["kept_tokens"] += c.kept_tokens;
  }
}

std::unique_ptr<Streams> CtcWfstCpu::streams(const StreamLimits&) {
  return std::make_unique<WfstStreams>(
      std::make_unique<CpuStreams>(*graph_, static_cast<float>(options_.beam), options_.max_active,
                                   boosting_.costs, threads()),
      [this](const at::Tensor& frames) {
        return scaled_log_probs(*model_, frames, options_.acoustic_scale).cpu();
      });
}

CpuStreams::CpuStreams(WfstGraph graph, float beam, int64_t max_active,
                       std::vector<float> word_costs, int64_t threads)
    : graph_(std::move(graph)), word_costs_(std::move(word_costs)) {
  for (int64_t i = 0; i < threads; ++i) searches_.emplace_back(graph_.view(), beam, max_active);
}

int64_t CpuStreams::open(std::optional<std::vector<float>> word_costs) {
  Stream stream{word_costs ? std::move(*word_costs) : word_costs_, {}};
  // The numbers keep their addresses when the vector is moved.
  stream.state = searches_.front().start(stream.word_costs);
  return streams_.add(std::move(stream));
}

void CpuStreams::advance(std::span<const WfstPiece> pieces) {
  const std::vector<Stream*> streams = streams_.find_all(piece_streams(pieces));
  for_each_utterance(piece_frames(pieces, graph_.view().columns, at::kCPU), searches_.size(),
                     [&](size_t thread, size_t i) {
                       const at::Tensor& lp = pieces[i].lp;
                       searches_[thread].advance(streams[i]->state, data_of<float>(lp), lp.size(0),
                                                 lp.size(1));
                     });
}

WfstPath CpuStreams::partial(int64_t stream) {
  return searches_.front().partial(streams_.at(stream).state);
}

WfstPath CpuStreams::finish(int64_t stream) {
  return searches_.front().finish(streams_.at(stream).state);
}

namespace {

const Register<CtcWfstCpu> registered{
    "ctc_wfst_cpu", "Viterbi beam search over a graph of lexicon and word LM, on the CPU"};

}  // namespace
}  // namespace rtfx
