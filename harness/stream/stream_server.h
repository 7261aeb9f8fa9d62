// What a streaming server does with a batch of requests: it searches the next frames of each
// stream's utterance, all together.
#pragma once

#include <vector>

#include "algorithms/shared/wfst/stream_search.h"
#include "harness/stream/stream_load.h"

namespace rtfx {

/// An utterance as requests bring it.
struct StreamedUtterance {
  at::Tensor lp;              // [frames, V+1] as WfstPiece has it
  std::vector<int64_t> ends;  // behind which frame each request ends (stream_options.h)
};

/// Streams without end: the utterances one after the other, a stream beginning with the utterance
/// of its own number. Open ones are closed in the end.
class StreamServer {
 public:
  /// `partial`: with the best path so far after every request. Search and utterances must outlive
  /// the server.
  StreamServer(StreamSearch& search, const std::vector<StreamedUtterance>& utterances,
               int64_t streams, bool partial);
  ~StreamServer();
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  /// One request of a stream at most. The results are on the host on return.
  void work(const std::vector<Request>& requests);

  struct Finished {
    size_t utterance;
    WfstPath path;
  };
  const std::vector<Finished>& finished() const { return finished_; }

 private:
  struct Stream {
    size_t utterance = 0, request = 0;
    int64_t number = -1;  // in search_; -1: between two utterances
  };

  StreamSearch& search_;
  const std::vector<StreamedUtterance>& utterances_;
  std::vector<Stream> streams_;
  bool partial_;
  std::vector<WfstPath> partial_paths_;  // of the last batch
  std::vector<Finished> finished_;
};

}  // namespace rtfx
