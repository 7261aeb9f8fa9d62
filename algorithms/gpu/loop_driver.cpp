#include "algorithms/gpu/loop_driver.h"

#include <ATen/ATen.h>

#include "algorithms/batched_hypotheses.h"
#include "base/nvtx.h"

namespace rtfx {

std::string LoopDriver::prepare(const std::string& loop, const std::string& decoder,
                                const Limits& limits, const at::Tensor& like, Project project,
                                Search search) {
  const std::string form = LoopForm::available(loop, like.device(), decoder);
  project_ = std::move(project);
  search_ = std::move(search);
  {
    HostLoops loops(reads_);
    search_({like, at::zeros({1}, like.options().dtype(at::kLong)), {0}}, loops);
  }
  if (form != "host") {
    recorded_.emplace(form, search_);
    recorded_->prepare(limits, like);
  }
  return form;
}

Hypotheses LoopDriver::decode(const EncodedBatch& batch) {
  reads_.reset();
  return project_and_search(batch);
}

Hypotheses LoopDriver::decode_one_by_one(const EncodedBatch& batch) {
  reads_.reset();
  std::vector<Hypotheses> rows;
  for (int64_t b = 0; b < batch.frames.size(0); ++b) {
    const int64_t length = batch.lengths_host[static_cast<size_t>(b)];
    rows.push_back(project_and_search({batch.frames.narrow(0, b, 1).narrow(1, 0, length),
                                       batch.lengths.narrow(0, b, 1),
                                       {length}}));
  }
  return concatenate(rows);
}

Hypotheses LoopDriver::project_and_search(const EncodedBatch& batch) {
  EncodedBatch projected = batch;
  {
    const ScopedRange range(RangeName::decode_project, batch.frames.size(0));
    projected.frames = project_(batch.frames);
  }
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  if (recorded_) return recorded_->run(projected, reads_);
  HostLoops loops(reads_);
  return search_(projected, loops);
}

Counters LoopDriver::counters(Counters counts) const {
  if (recorded_) return {{"host_reads", reads_.count()}, {"graph_captures", recorded_->captures()}};
  counts["host_reads"] = reads_.count();
  return counts;
}

}  // namespace rtfx
