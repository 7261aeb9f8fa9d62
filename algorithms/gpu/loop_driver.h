// Drives the search of a batched decoder in the way that its option "loop" asks for. The decoder
// brings two functions:
//
//   project  computes, before the search, all that needs no search: the encoder's part of the joint
//            network for all frames of a batch, or the logits of a CTC head
//   search   decodes the projected frames, and is written against Loops (algorithms/gpu/loops.h)
//
// BatchedSearch (algorithms/shared/batched) is the base class of such decoders and calls the
// driver.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/gpu/recorded_search.h"

namespace rtfx {

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
  /// the number of its recordings.
  Counters counters(Counters counts) const;

  /// Returns what prepare() was given.
  const Project& project() const { return project_; }

  /// Counts the waits of a search that waits for the device outside the tests of its loops.
  HostReads& reads() { return reads_; }

 private:
  Hypotheses project_and_search(const EncodedBatch& batch);

  Project project_;
  Search search_;
  std::optional<RecordedSearch> recorded_;  // unless the host drives the loops
  HostReads reads_;
};

}  // namespace rtfx
