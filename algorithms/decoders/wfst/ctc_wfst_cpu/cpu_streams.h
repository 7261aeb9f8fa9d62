// Streams that are searched by threads of the CPU.
#pragma once

#include "algorithms/decoders/wfst/ctc_wfst_cpu/viterbi.h"
#include "algorithms/open_streams.h"
#include "algorithms/shared/wfst/wfst_batch.h"

namespace rtfx {

/// advance() searches a piece per thread.
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

}  // namespace rtfx
