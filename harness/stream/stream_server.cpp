#include "harness/stream/stream_server.h"

namespace rtfx {

StreamServer::StreamServer(StreamSearch& search, const std::vector<StreamedUtterance>& utterances,
                           int64_t streams, bool partial)
    : search_(search),
      utterances_(utterances),
      streams_(static_cast<size_t>(streams)),
      partial_(partial) {
  for (size_t i = 0; i < streams_.size(); ++i) streams_[i].utterance = i % utterances_.size();
}

StreamServer::~StreamServer() {
  for (const Stream& stream : streams_)
    if (stream.number >= 0) search_.close(stream.number);
}

void StreamServer::work(const std::vector<Request>& requests) {
  std::vector<WfstPiece> pieces;
  for (const Request& request : requests) {
    Stream& stream = streams_[static_cast<size_t>(request.stream)];
    if (stream.number < 0) stream.number = search_.open();
    const auto& [lp, ends] = utterances_[stream.utterance];
    const int64_t begin = stream.request == 0 ? 0 : ends[stream.request - 1];
    pieces.push_back({stream.number, lp.narrow(0, begin, ends[stream.request] - begin)});
  }
  search_.advance(pieces);
  partial_paths_.clear();
  for (const Request& request : requests) {
    Stream& stream = streams_[static_cast<size_t>(request.stream)];
    if (++stream.request < utterances_[stream.utterance].ends.size()) {
      if (partial_) partial_paths_.push_back(search_.partial(stream.number));
      continue;
    }
    finished_.push_back({stream.utterance, search_.finish(stream.number)});
    search_.close(stream.number);
    stream = {(stream.utterance + streams_.size()) % utterances_.size(), 0, -1};
  }
}

}  // namespace rtfx
