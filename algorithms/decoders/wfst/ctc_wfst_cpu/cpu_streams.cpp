#include "algorithms/decoders/wfst/ctc_wfst_cpu/cpu_streams.h"

#include "algorithms/shared/wfst/wfst_batch.h"

namespace rtfx {

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
  const std::vector<Stream*> streams = streams_.of(piece_streams(pieces));
  for_each_utterance(piece_frames(pieces, graph_.view().columns, at::kCPU), searches_.size(),
                     [&](size_t thread, size_t i) {
                       const at::Tensor& lp = pieces[i].lp;
                       searches_[thread].advance(streams[i]->state, lp.const_data_ptr<float>(),
                                                 lp.size(0), lp.size(1));
                     });
}

WfstPath CpuStreams::partial(int64_t stream) {
  return searches_.front().partial(streams_.at(stream).state);
}

WfstPath CpuStreams::finish(int64_t stream) {
  return searches_.front().finish(streams_.at(stream).state);
}

}  // namespace rtfx
