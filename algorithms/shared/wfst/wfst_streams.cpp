#include "algorithms/shared/wfst/wfst_streams.h"

#include "algorithms/shared/wfst/wfst_batch.h"

namespace rtfx {

void WfstStreams::push(std::span<const int64_t> streams, const EncodedBatch& pieces) {
  std::vector<WfstPiece> rows;
  for (size_t row = 0; row < streams.size(); ++row) {
    rows.push_back({streams[row], pieces.frames[static_cast<int64_t>(row)].narrow(
                                      0, 0, pieces.lengths_host[row])});
  }
  search_->advance(rows);
}

PartialResult WfstStreams::partial(int64_t stream) {
  return {wfst_hypothesis(search_->partial(stream)), 0};
}

Hypothesis WfstStreams::finish(int64_t stream) {
  Hypothesis result = wfst_hypothesis(search_->finish(stream));
  search_->close(stream);
  return result;
}

void WfstStreams::close(int64_t stream) { search_->close(stream); }

}  // namespace rtfx
