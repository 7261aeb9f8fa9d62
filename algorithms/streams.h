// The contract of a decoder for utterances that arrive in pieces. decoder.h has the contract for
// whole utterances.
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

/// The sizes at which a search in pieces works. Larger calls are cut into such batches, and smaller
/// calls are padded to them, since a matrix product may round differently at another size.
struct StreamLimits {
  int64_t max_batch = 1;    // streams
  int64_t max_frames = 16;  // encoder frames of a stream
};

/// The result of a stream so far.
struct PartialResult {
  Hypothesis best;     // the best hypothesis, for the case that more frames follow
  int64_t stable = 0;  // number of its first tokens that no later frame can change
};

/// Decodes many utterances at a time, piece by piece. The state of each utterance stays on the
/// device.
///
/// Neither the cut into pieces nor the other utterances change a result: equal projected frames
/// give equal bits. Decoder::decode() gives the same bits at the same batch size. At another batch
/// size, the results agree up to rounding. Scores of ctc_greedy have the bits of decode() only
/// where its kernel makes both (DeviceCollapse); elsewhere they agree up to rounding.
///
/// Frames count from the start of the utterance. Only one thread at a time may call. A call throws
/// UserError for a stream that is not open, or that it names twice. All streams are then as before.
class Streams {
 public:
  virtual ~Streams() = default;

  /// Computes the input of push() as decode() computes it: frames [B, T', D] of the encoder become
  /// [B, T', X]. Does not wait for the device, unless the search is on the host and the model is
  /// not.
  virtual at::Tensor project(const at::Tensor& frames) = 0;

  /// Begins an utterance and returns its number. No later utterance gets the same number.
  virtual int64_t open() = 0;

  /// Replaces the phrases and characters of this stream by those of `bias`
  /// (Decoder::compile_bias()). Null restores those of the decoder's options. A phrase that has
  /// begun is forgotten. Throws UserError where compile_bias() does. Also throws it after the first
  /// frame of a stream of ctc_wfst or ctc_wfst_cpu with "nbest" above 1.
  virtual void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias);

  /// Searches the next frames of all `streams` together. pieces.frames is [B, T', X], from
  /// project(). pieces.lengths_host has the length of each piece, which may be 0. pieces.lengths is
  /// not read. Waits for the device: on return, the host has the results. If it throws anything
  /// else than UserError, the streams of the call can only be closed.
  virtual void push(std::span<const int64_t> streams, const EncodedBatch& pieces) = 0;

  /// Returns the result so far, without a search. Waits for the device at most once. A stream of
  /// ctc_wfst that has had no push() is an exception: its first call searches the start of the
  /// graph, and waits as push() does.
  virtual PartialResult partial(int64_t stream) = 0;

  /// Returns the result of the utterance and closes the stream. Some searches do work here and wait
  /// for the device: those with PieceSearch::at_end call the search once more. For an n-best list,
  /// ctc_wfst and ctc_wfst_cpu search the whole utterance again.
  virtual Hypothesis finish(int64_t stream) = 0;

  /// Forgets the utterance.
  virtual void close(int64_t stream) = 0;
};

/// The state of B rows: tensors [B, ...] in an order that the search chooses. An empty list stands
/// for rows at the start of an utterance.
using RowState = std::vector<at::Tensor>;

/// Passes through the tensors of a search in one order, to load a saved state into them or to save
/// their state:
///
///   void transfer(StateTransfer& transfer) { transfer(time); transfer(prediction.state.h, 1); }
class StateTransfer {
 public:
  static StateTransfer load(const RowState& state) { return StateTransfer(&state, nullptr); }
  static StateTransfer save(RowState& state) { return StateTransfer(nullptr, &state); }

  /// Transfers one tensor. The rows of the batch lie along `dimension` of the tensor, with
  /// `per_row` slices for each row of the batch. Loading writes into the tensor in place. Undefined
  /// tensors are skipped.
  void operator()(at::Tensor& tensor, int64_t dimension = 0, int64_t per_row = 1);

  /// Transfers a tensor [B * per_row] int32 that may be undefined. Saving an undefined tensor
  /// stores zeros, and loading into one skips the saved numbers. `rows` is any tensor with B rows
  /// on the device of the batch.
  void or_zeros(at::Tensor& tensor, const at::Tensor& rows, int64_t per_row = 1);

  bool loads() const { return from_ != nullptr; }

 private:
  StateTransfer(const RowState* from, RowState* to) : from_(from), to_(to) {}
  const RowState* from_;
  RowState* to_;
  size_t next_ = 0;
};

/// Holds open streams by their numbers. `Stream` is the state of one.
template <class Stream>
class OpenStreams {
 public:
  int64_t add(Stream stream) {
    streams_.emplace(next_, std::move(stream));
    return next_++;
  }
  /// Returns a stream. Its address stays as long as it is open. Throws UserError if it is not open.
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
