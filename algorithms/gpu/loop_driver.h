// The loops of a search, apart from who drives them: the host, the host with recorded graphs, or a
// CUDA graph with while nodes. A decoder is written once, as segments of tensor work and loops over
// them:
//
//   loops.segment(RangeName::decode_init, [&] { first(); });
//   loops.while_any(active, [&] { loops.segment(RangeName::decode_step, [&] { step(); }); });
//
// All tensor work belongs in a segment. Segments change tensors in place: for a graph they run only
// once, to be recorded, and a loop's flags are read again and again at the same address.
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
  /// Tensor work without a loop in it: what the host launches as one graph when graphs are
  /// replayed. A profiler sees it as a range `name`.
  virtual void segment(RangeName name, const std::function<void()>& work) = 0;
  /// `body` as long as any of `flags` (bool, at least one element) is set; tested before each
  /// round.
  virtual void while_any(const at::Tensor& flags, const std::function<void()>& body) = 0;
};

/// The host runs everything and reads the flags back: one host read per test.
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

/// How loops are driven: "host", "replay" (the host, with each segment as a
/// recorded graph), "graph" (the GPU: one graph with while nodes).
struct LoopForm {
  /// Throws UserError when `loop` needs a GPU and `device` is none. Where the driver is too old
  /// for conditional nodes, says so on standard error and returns "host".
  static std::string available(const std::string& loop, at::Device device,
                               const std::string& decoder);
};

// A search that is recorded for one size of batch.

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

  /// Times that something was recorded since reset_captures().
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
//   (algorithms/gpu/loop_driver.h)
//
// BatchedSearch (algorithms/shared/batched) is the base class of such decoders and calls the
// driver.

class LoopDriver {
 public:
  /// frames [B, T', D] of the encoder -> [B, T', X], what the search reads of them.
  using Project = std::function<at::Tensor(const at::Tensor& frames)>;
  /// The function type of RecordedSearch. While the host drives the loops, batch.lengths_host holds
  /// the lengths.
  using Search = RecordedSearch::Search;

  /// Does the work of Decoder::prepare(). `loop` is the option's value, and `decoder` the name in
  /// messages. Returns the form that is available, and throws what LoopForm::available() throws.
  ///
  /// Searches an utterance without frames once, so that a device that cannot do it is refused here.
  /// Unless the form is "host", records the search for batches up to `limits`. `like` [1, 1, X] has
  /// the dtype, device and width X of the frames that `project` returns.
  std::string prepare(const std::string& loop, const std::string& decoder, const Limits& limits,
                      const at::Tensor& like, Project project, Search search);

  /// Projects the frames (range "decode.project" of a profile) and searches them ("decode.loop").
  /// Waits for the device once per test of a loop; not at all with "loop": "graph".
  Hypotheses decode(const EncodedBatch& batch);

  /// Decodes each utterance as a batch of its own.
  Hypotheses decode_one_by_one(const EncodedBatch& batch);

  /// Tells that memory which the search reads beside its batch has moved. If the search is
  /// recorded, the next decode() records it again.
  void record_anew() {
    if (recorded_) recorded_->record_anew();
  }

  /// The result of Decoder::counters(): the waits of the last decode(), and `counts`, which the
  /// search counted on the host. A recorded search runs no host code, so it has no such counts, but
  /// the number of recordings that the last decode() made.
  Counters counters(Counters counts) const;

  /// Returns what prepare() was given.
  const Project& project() const { return project_; }

  /// Counts the waits of a search that waits for the device outside the tests of its loops.
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
