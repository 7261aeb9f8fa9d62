// The contract of a decoder for utterances that come in pieces; decoder.h has whole ones.
#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/hypotheses.h"
#include "base/error.h"

namespace rtfx {

struct EncodedBatch;
struct CompiledBias;  // algorithms/shared/biasing/compiled_bias.h

/// Sizes that a search in pieces works at. Larger calls are cut into such batches, smaller ones
/// padded to them: a product of matrices may round otherwise at another size.
struct StreamLimits {
  int64_t max_batch = 1;    // streams
  int64_t max_frames = 16;  // encoder frames of a stream
};

/// The result so far.
struct PartialResult {
  Hypothesis best;     // as if more frames came
  int64_t stable = 0;  // so many of its first tokens stay, whatever comes
};

/// Decodes many utterances at a time, piece by piece. The state of each stays on the device.
///
/// Neither the cut into pieces nor the other utterances change a result: equal projected frames
/// give equal bits. They are also the bits of Decoder::decode() at the same batch size; at another
/// one they agree up to rounding. Scores of ctc_greedy have the bits of decode() only where its
/// kernel makes both (DeviceCollapse); elsewhere they agree up to rounding.
///
/// Frames count from the start of the utterance. One thread at a time may call. A stream that is
/// not open, or that is named twice in one call, is a UserError, after which all streams are as
/// before.
class Streams {
 public:
  virtual ~Streams() = default;

  /// frames [B, T', D] of the encoder -> [B, T', X], what push() takes, as decode() computes it.
  /// Does not wait for the device, unless the search is on the host and the model is not.
  virtual at::Tensor project(const at::Tensor& frames) = 0;

  /// A new utterance; returns its number, which no later one gets.
  virtual int64_t open() = 0;

  /// Phrases and characters of this stream from now on (Decoder::compile_bias()), in place of those
  /// before; null: those of the decoder's options. What had begun of a phrase is forgotten. Throws
  /// UserError where compile_bias() does, and after the first frame of a stream of ctc_wfst or
  /// ctc_wfst_cpu with "nbest" above 1.
  virtual void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias);

  /// Searches the next frames of all these streams together. pieces.frames: [B, T', X] from
  /// project(); pieces.lengths_host: of each stream, 0 too; pieces.lengths is not read. On return
  /// the host has the results: waits for the device. Where it throws anything else than UserError,
  /// the streams of the call can only be closed.
  virtual void push(std::span<const int64_t> streams, const EncodedBatch& pieces) = 0;

  /// Does not search; waits for the device at most once.
  virtual PartialResult partial(int64_t stream) = 0;

  /// The result of the utterance, which is closed with that.
  virtual Hypothesis finish(int64_t stream) = 0;

  /// Forgets the utterance.
  virtual void close(int64_t stream) = 0;
};

/// [B, ...] each, in an order of the search's own. Without any: rows at the start of an utterance.
using RowState = std::vector<at::Tensor>;

/// Passes through the tensors of a search in one order, to put a state into them or to take it out:
///
///   void transfer(StateTransfer& transfer) { transfer(time); transfer(prediction.state.h, 1); }
class StateTransfer {
 public:
  static StateTransfer load(const RowState& state) { return StateTransfer(&state, nullptr); }
  static StateTransfer save(RowState& state) { return StateTransfer(nullptr, &state); }

  /// Rows lie along `dimension` of the tensor, `per_row` of them for each row of the batch. Loading
  /// writes into the tensor in place. Undefined tensors are passed over.
  void operator()(at::Tensor& tensor, int64_t dimension = 0, int64_t per_row = 1);

  /// Transfers int32 numbers, `per_row` of each row, of a tensor that may be undefined. Saving an
  /// undefined tensor stores zeros, and loading into one leaves out what was saved. `rows`: any
  /// tensor with as many rows as the batch, on its device.
  void or_zeros(at::Tensor& tensor, const at::Tensor& rows, int64_t per_row = 1);

  bool loads() const { return from_ != nullptr; }

 private:
  StateTransfer(const RowState* from, RowState* to) : from_(from), to_(to) {}
  const RowState* from_;
  RowState* to_;
  size_t next_ = 0;
};

// A container of open streams by their numbers, which searches of streams share.

/// Holds open streams by their numbers. `Stream` is the state of one.
template <class Stream>
class OpenStreams {
 public:
  int64_t add(Stream stream) {
    streams_.emplace(next_, std::move(stream));
    return next_++;
  }
  /// The address stays as long as the stream is open.
  Stream& at(int64_t number) { return *found(streams_, number); }
  const Stream& at(int64_t number) const { return *found(streams_, number); }
  /// Returns the streams of a call, in its order. Throws UserError for a stream that is not open,
  /// or that is named twice.
  std::vector<Stream*> find_all(std::span<const int64_t> numbers) {
    std::vector<Stream*> streams;
    std::set<int64_t> seen;
    for (const int64_t number : numbers) {
      if (!seen.insert(number).second) {
        throw UserError(fmt::format("stream {}", number), "has two pieces in one call",
                        "put them together, or use two calls");
      }
      streams.push_back(&at(number));
    }
    return streams;
  }
  Stream remove(int64_t number) {
    Stream stream = std::move(at(number));
    streams_.erase(number);
    return stream;
  }

 private:
  template <class Streams>
  static auto found(Streams& streams, int64_t number) {
    const auto it = streams.find(number);
    if (it == streams.end()) {
      throw UserError(fmt::format("stream {}", number), "is not open",
                      "use a number that open() gave, until finish() or close()");
    }
    return &it->second;
  }

  std::map<int64_t, Stream> streams_;
  int64_t next_ = 1;
};

}  // namespace rtfx
