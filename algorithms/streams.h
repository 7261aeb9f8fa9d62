// The contract of a decoder for utterances that come in pieces; decoder.h has whole ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "algorithms/hypotheses.h"

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
/// one they agree up to rounding.
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
  /// UserError where compile_bias() does.
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

  /// int32 numbers, `per_row` of each row, that a batch may lack: those of an undefined tensor are
  /// zeros. `rows`: any tensor with as many rows as the batch, on its device.
  void or_zeros(at::Tensor& tensor, const at::Tensor& rows, int64_t per_row = 1);

  bool loads() const { return from_ != nullptr; }

 private:
  StateTransfer(const RowState* from, RowState* to) : from_(from), to_(to) {}
  const RowState* from_;
  RowState* to_;
  size_t next_ = 0;
};

}  // namespace rtfx
