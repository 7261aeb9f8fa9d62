// The loops of a search, independent of what drives them: the host, the host with recorded graphs,
// or a CUDA graph with while nodes. A decoder is written once, as segments of tensor work and loops
// over them:
//
//   loops.segment(RangeName::decode_init, [&] { first(); });
//   loops.while_any(active, [&] { loops.segment(RangeName::decode_step, [&] { step(); }); });
//
// All tensor work belongs in a segment. Segments must change tensors in place. If a graph drives
// the loops, a segment runs only once, to be recorded. The flags of a loop are read again and again
// at the same address.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "base/nvtx.h"

namespace rtfx {

class Loops {
 public:
  virtual ~Loops() = default;
  /// Runs or records `work`, which is tensor work without a loop. With "replay" the host launches
  /// it as one graph. A profiler shows it as a range `name`.
  virtual void segment(RangeName name, const std::function<void()>& work) = 0;
  /// Repeats `body` while any of `flags` (bool, at least one element) is set. The flags are tested
  /// before each iteration.
  virtual void while_any(const at::Tensor& flags, const std::function<void()>& body) = 0;
};

/// Lets the host run everything. Each test of the flags is one host read.
class HostLoops : public Loops {
 public:
  explicit HostLoops(HostReads& reads) : reads_(reads) {}
  void segment(RangeName name, const std::function<void()>& work) override {
    const ScopedRange range(name, segments_++);
    work();
  }
  void while_any(const at::Tensor& flags, const std::function<void()>& body) override {
    while (reads_.any(flags)) body();
  }

 private:
  HostReads& reads_;
  int64_t segments_ = 0;
};

// A decoder's option "loop" says what drives its loops. With "host" the host launches each
// operator. With "replay" the host launches each segment as a recorded graph. With "graph" the GPU
// runs one graph with while nodes.

/// Returns `loop`. If that is "graph" and the driver is too old for conditional nodes, it says so
/// on standard error and returns "host". Throws UserError if `loop` needs a GPU and `device` is
/// none. `decoder` is the name in messages.
std::string available_loop(const std::string& loop, at::Device device, const std::string& decoder);

/// A search that is recorded for a number of rows and a number of frames. The recording runs all
/// batches that are not larger, and the rows that a batch lacks have length 0 in it. For a larger
/// batch the search is recorded again, for the most rows and the most frames seen so far.
class RecordedSearch {
 public:
  /// Searches `batch` through `loops`. batch.frames are [B, T', X], as the search reads them.
  /// batch.lengths_host is empty here, because a recording serves batches of any lengths.
  using Search = std::function<Hypotheses(const EncodedBatch& batch, Loops& loops)>;

  RecordedSearch(std::string loop, Search search);
  ~RecordedSearch();

  /// Records for batches up to `limits`, or records nothing if a limit is 0 (unknown). `like` is
  /// any tensor of the frames' dtype, device and width X.
  void prepare(const Limits& limits, const at::Tensor& like);

  /// Searches a batch, and records first if no recording fits. The caller may keep the result,
  /// which later calls do not change. With "replay", it waits for the device once per test of a
  /// loop. It also waits while it records.
  Hypotheses run(const EncodedBatch& batch, HostReads& reads);

  /// Makes the next run() record again. This is needed if memory that the search reads, other than
  /// its batch, has moved.
  void record_anew() { stale_ = true; }

  /// Returns the number of recordings since reset_captures().
  int64_t captures() const { return captures_; }
  void reset_captures() { captures_ = 0; }

 private:
  struct Recording;
  void record(int64_t rows, int64_t frames, const at::Tensor& like);

  std::string loop_;
  Search search_;
  std::unique_ptr<Recording> recording_;
  int64_t captures_ = 0;
  bool stale_ = false;
};

// Drives the search of a batched decoder in the way that its option "loop" asks for. The decoder
// brings two functions:
//
//   project  computes, before the search, all that needs no search: the encoder's part of the joint
//            network for all frames of a batch, or the logits of a CTC head
//   search   decodes the projected frames, and is written against Loops
//
// BatchedSearch (algorithms/shared/batched) is the base class of such decoders and calls the
// driver.

class LoopDriver {
 public:
  /// Maps encoder frames [B, T', D] to the tensor [B, T', X] that the search reads.
  using Project = std::function<at::Tensor(const at::Tensor& frames)>;
  /// The function type of RecordedSearch. While the host drives the loops, batch.lengths_host holds
  /// the lengths.
  using Search = RecordedSearch::Search;

  /// Does the work of Decoder::prepare(). `loop` is the option's value, and `decoder` the name in
  /// messages. Returns the result of available_loop(), and throws what it throws.
  ///
  /// Searches an utterance without frames once, so that a device that cannot do it is refused here.
  /// Unless the form is "host", records the search for batches up to `limits`. `like` [1, 1, X] has
  /// the dtype, device and width X of the frames that `project` returns.
  std::string prepare(const std::string& loop, const std::string& decoder, const Limits& limits,
                      const at::Tensor& like, Project project, Search search);

  /// Projects the frames (range "decode.project" of a profile) and searches them ("decode.loop").
  /// Waits for the device once per test of a loop. With "loop": "graph" it does not wait, except to
  /// record the search for a larger batch.
  Hypotheses decode(const EncodedBatch& batch);

  /// Decodes each utterance as a batch of its own.
  Hypotheses decode_one_by_one(const EncodedBatch& batch);

  /// Makes the next decode() record the search again, if it is recorded. This is needed if memory
  /// that the search reads, other than its batch, has moved.
  void record_anew() {
    if (recorded_) recorded_->record_anew();
  }

  /// Returns the result of Decoder::counters(): the waits of the last decode(), and `counts`, which
  /// the search counted on the host. A recorded search runs no host code, so `counts` are left out.
  /// In their place is the number of recordings that the last decode() made.
  Counters counters(Counters counts) const;

  /// Returns the projection that prepare() was given.
  const Project& project() const { return project_; }

  /// Returns the reader for searches that wait for the device outside the tests of their loops.
  HostReads& reads() { return reads_; }

 private:
  void reset_counts();
  Hypotheses project_and_search(const EncodedBatch& batch);

  Project project_;
  Search search_;
  std::optional<RecordedSearch> recorded_;  // unless the host drives the loops
  HostReads reads_;
};

}  // namespace rtfx
