// Utterances that come in pieces, as the searches over a decoding graph have them (Streams of a
// decoder: wfst_streams.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/shared/wfst/search.h"

namespace rtfx {

/// The next frames of an utterance.
struct WfstPiece {
  int64_t stream = 0;
  at::Tensor lp;  // [frames, V+1] float32, contiguous, on the search's device: scaled
                  // log-probabilities; also without any frame
};

/// Many utterances at a time, each with its own state. In which pieces an utterance comes, and
/// together with which others, changes nothing: the results equal those of the whole utterance, bit
/// for bit. One thread at a time may call. A stream that is not open, or that has two pieces in one
/// call, is a UserError.
class StreamSearch {
 public:
  virtual ~StreamSearch() = default;

  /// A new utterance; returns its number, which no later one gets. `word_costs`: [W + 1]
  /// (word_boost.h), empty for none; without it those of the decoder's option "boost". Does not
  /// wait for the device: the search begins with the first advance(), partial() or finish().
  virtual int64_t open(std::optional<std::vector<float>> word_costs = std::nullopt) = 0;

  /// Searches the pieces together. On return the host has the results. Where it throws, no stream
  /// of the call can be used but to close it.
  virtual void advance(std::span<const WfstPiece> pieces) = 0;

  /// The best path after the frames so far, as if more came: the token of least cost, whether its
  /// state is final or not. Its last words may change with later frames.
  virtual WfstPath partial(int64_t stream) = 0;
  /// The best path as if the frames so far were all: final states first.
  virtual WfstPath finish(int64_t stream) = 0;

  /// Forgets the utterance, at its end or in the middle.
  virtual void close(int64_t stream) = 0;
};

}  // namespace rtfx
