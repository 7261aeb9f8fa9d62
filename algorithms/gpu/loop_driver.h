// What a batched decoder with loops does besides its search, whichever way its option "loop" says
// that the loops are driven. The decoder brings two functions:
//
//   project  what can be computed for all frames of a batch at once, before the search: the
//            encoder's part of the joint network, or the logits of a CTC head
//   search   the search over projected frames, written against Loops (algorithms/gpu/loops.h)
//
// and its three members are a line or two each:
//
//   prepare():   options_.loop = driver_.prepare(...);
//   decode():    return driver_.decode(batch);
//   counters():  return driver_.counters({{"joint_calls", joint_calls_}});
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
  /// As RecordedSearch has it. While the host drives the loops, batch.lengths_host are the lengths.
  using Search = RecordedSearch::Search;

  /// For Decoder::prepare(). `loop`: the option's value. Returns the form that is available (see
  /// LoopForm), and throws what LoopForm::available() throws; `decoder` is the name in messages.
  /// Searches an utterance without frames once, so that what the device cannot do is refused here;
  /// then, unless that is "host", records for batches up to `limits`. `like`: [1, 1, X] of the
  /// dtype, device and width X of what `project` returns.
  std::string prepare(const std::string& loop, const std::string& decoder, const Limits& limits,
                      const at::Tensor& like, Project project, Search search);

  /// Projects the frames (range "decode.project" of a profile) and searches them ("decode.loop").
  /// Waits for the device once per test of a loop; not at all with "loop": "graph".
  Hypotheses decode(const EncodedBatch& batch);

  /// The same, each utterance as a batch of its own.
  Hypotheses decode_one_by_one(const EncodedBatch& batch);

  /// What the search reads beside its batch has moved: where it is recorded, the next decode()
  /// records it again.
  void record_anew() {
    if (recorded_) recorded_->record_anew();
  }

  /// For Decoder::counters(): the waits of the last decode(), and `counts`, what the search counted
  /// on the host. A recorded search passes no host code and has no such counts; instead there is
  /// how often it was recorded.
  Counters counters(Counters counts) const;

  /// For a search that waits for the device apart from the tests of its loops.
  HostReads& reads() { return reads_; }

 private:
  Hypotheses project_and_search(const EncodedBatch& batch);

  Project project_;
  Search search_;
  std::optional<RecordedSearch> recorded_;  // unless the host drives the loops
  HostReads reads_;
};

}  // namespace rtfx
