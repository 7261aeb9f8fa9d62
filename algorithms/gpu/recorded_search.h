// A search written against Loops (algorithms/gpu/loops.h), recorded for one size of batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/gpu/loops.h"

namespace rtfx {

/// How loops are driven: "host", "replay" (the host, with each segment as a
/// recorded graph), "graph" (the GPU: one graph with while nodes).
struct LoopForm {
  /// Throws UserError when `loop` needs a GPU and `device` is none. Where the driver is too old
  /// for conditional nodes, says so on standard error and returns "host".
  static std::string available(const std::string& loop, at::Device device,
                               const std::string& decoder);
};

/// A recording is for some number of rows and of frames, and runs all batches that are not larger:
/// the rows that a batch lacks have length 0 in it. A larger batch has the search recorded again,
/// for the most rows and the most frames seen so far.
class RecordedSearch {
 public:
  /// A search over `batch` through `loops`. batch.frames are [B, T', X], as the search reads them.
  /// batch.lengths_host is empty here: a recording serves batches of any lengths.
  using Search = std::function<Hypotheses(const EncodedBatch& batch, Loops& loops)>;

  RecordedSearch(std::string loop, Search search);
  ~RecordedSearch();

  /// Records for batches up to `limits`. `like`: any tensor of the frames' dtype, device and width
  /// X.
  void prepare(const Limits& limits, const at::Tensor& like);

  /// The result is the caller's. Waits for the device only for "replay", once per test of a loop,
  /// and where it has to record anew.
  Hypotheses run(const EncodedBatch& batch, HostReads& reads);

  /// Tells that memory which the search reads beside its batch has moved: the next run() records
  /// again.
  void record_anew() { stale_ = true; }

  /// Times that something was recorded.
  int64_t captures() const { return captures_; }

 private:
  struct Recording;
  void record(int64_t rows, int64_t frames, const at::Tensor& like);

  std::string loop_;
  Search search_;
  std::unique_ptr<Recording> recording_;
  int64_t captures_ = 0;
  bool stale_ = false;
};

}  // namespace rtfx
