// Streams of the decoders that search a decoding graph.
#pragma once

#include <functional>
#include <memory>

#include "algorithms/decoder.h"
#include "algorithms/shared/wfst/stream_search.h"

namespace rtfx {

/// Projected frames are scaled log-probabilities, [B, T', V+1] float32, contiguous, on the device
/// of the search. Nothing of a partial result is known to be stable. A NaN leaves no path alive,
/// and so marks the result.
class WfstStreams : public Streams {
 public:
  using Project = std::function<at::Tensor(const at::Tensor& frames)>;

  WfstStreams(std::unique_ptr<StreamSearch> search, Project project)
      : search_(std::move(search)), project_(std::move(project)) {}

  at::Tensor project(const at::Tensor& frames) override { return project_(frames); }
  int64_t open() override { return search_->open(); }
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override;
  PartialResult partial(int64_t stream) override;
  Hypothesis finish(int64_t stream) override;
  void close(int64_t stream) override;

 private:
  std::unique_ptr<StreamSearch> search_;
  Project project_;
};

}  // namespace rtfx
