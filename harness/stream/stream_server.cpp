#include "harness/stream/stream_server.h"

#include <ATen/ATen.h>

namespace rtfx {

StreamServer::StreamServer(Streams& search, const std::vector<StreamedUtterance>& utterances,
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

Work StreamServer::work(const std::vector<Request>& requests) {
  std::vector<int64_t> numbers;
  std::vector<at::Tensor> rows;
  EncodedBatch pieces;
  for (const Request& request : requests) {
    Stream& stream = streams_[static_cast<size_t>(request.stream)];
    if (stream.number < 0) stream.number = search_.open();
    numbers.push_back(stream.number);
    const auto& [frames, ends] = utterances_[stream.utterance];
    const int64_t begin = stream.request == 0 ? 0 : ends[stream.request - 1];
    const int64_t length = ends[stream.request] - begin;
    rows.push_back(frames.narrow(0, begin, length));
    pieces.lengths_host.push_back(length);
  }
  pieces.frames = at::empty({static_cast<int64_t>(rows.size()), pieces.longest(), rows[0].size(1)},
                            rows[0].options());
  for (size_t row = 0; row < rows.size(); ++row)
    pieces.frames[static_cast<int64_t>(row)].narrow(0, 0, rows[row].size(0)).copy_(rows[row]);
  search_.push(numbers, pieces);
  partial_results_.clear();
  Work work;
  for (const Request& request : requests) {
    Stream& stream = streams_[static_cast<size_t>(request.stream)];
    if (++stream.request < utterances_[stream.utterance].ends.size()) {
      if (partial_) partial_results_.push_back(search_.partial(stream.number));
      work.served.push_back({request, false});
      continue;
    }
    work.served.push_back({request, true});
    finished_.push_back({stream.utterance, search_.finish(stream.number)});
    stream = {(stream.utterance + streams_.size()) % utterances_.size(), 0, -1};
  }
  return work;
}

}  // namespace rtfx
