// These are streams of a batched search that can stop between two frames and go on. They have slots
// for the states of open streams, batches of a fixed size, and hypotheses on the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/loop_driver.h"
#include "algorithms/streams.h"

namespace rtfx {

/// The result of a search for a piece of one row, on the host.
struct RowPiece {
  /// One of the hypotheses, always as many as the search's beam.
  struct Slot {
    size_t origin = 0;  // which slot before the piece it continues
    Hypothesis added;   // tokens and durations of the piece, frames from its first frame on; the
                        // score is of the whole hypothesis, -inf where the slot is empty
  };
  std::vector<Slot> slots;
  int64_t consumed = 0;  // frames that the search needs no more; the others come again
  bool nan = false;
};

/// A search in pieces, as a decoder describes it.
struct PieceSearch {
  /// See Streams::project().
  std::function<at::Tensor(const at::Tensor& frames)> project;

  /// Searches batch.frames [B, T', X] from `state` on, and leaves the state behind them in it.
  /// `last`: no frames follow. Rows of length 0 keep their state, or only give their result if
  /// `last`.
  std::function<std::vector<RowPiece>(const EncodedBatch& batch, bool last, RowState& state)>
      search;

  at::Tensor like;            // [1, 1, X], dtype, device and width of projected frames
  size_t beam = 1;            // slots
  bool at_end = false;        // finish() must call search() once more
  bool takes_biases = false;  // EncodedBatch::biases; the first tensor of a state is then the rows'
                              // own models', zero at the start of a text
  bool score_norm = false;    // hypotheses are ranked by score / (tokens + 1)
  size_t nbest = 1;           // with a list if more than 1
};

/// A greedy search: one hypothesis, and no frame comes again. `search`: as Decoder::decode() has
/// it, on from `state`, with scores that are sums since the start of the utterance.
PieceSearch greedy_in_pieces(
    bool takes_biases, std::function<at::Tensor(const at::Tensor& frames)> project,
    const at::Tensor& like,
    std::function<Hypotheses(const EncodedBatch& batch, Loops& loops, RowState& state)> search);

/// The ranking that a beam search returns; see PieceSearch.
struct BeamRanking {
  int64_t beam, nbest;
  bool score_norm;
};

/// A batched beam search, with sets of phrases of its rows' own. `search`: as PieceSearch has it.
PieceSearch beam_in_pieces(std::function<at::Tensor(const at::Tensor& frames)> project,
                           const at::Tensor& like, const BeamRanking& ranking,
                           std::function<std::vector<RowPiece>(const EncodedBatch& batch, bool last,
                                                               RowState& state, HostReads& reads)>
                               search);

/// On the device a call of push() costs what one search of max_batch rows costs, whatever there is
/// for it; the host drives the loops. Pieces of up to max_frames frames get into the batch by one
/// copy. Longer ones, and those of streams with frames that come again, cost a copy for each row.
class PieceStreams : public Streams {
 public:
  /// Runs a search without frames once, for the state at the start.
  PieceStreams(PieceSearch search, const StreamLimits& limits);

  at::Tensor project(const at::Tensor& frames) override { return search_.project(frames); }
  int64_t open() override;
  void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias) override;
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override;
  PartialResult partial(int64_t stream) override;
  Hypothesis finish(int64_t stream) override;
  void close(int64_t stream) override;

 private:
  struct Stream {
    int64_t slot = 0;
    bool searched = false;         // otherwise its state is that of kStartSlot
    int64_t offset = 0;            // frames that were consumed
    Hypothesis stable;             // what all hypotheses begin with
    std::vector<Hypothesis> beam;  // behind that; scores are of the whole
    at::Tensor waiting;            // [n, X], frames that come again; undefined without any
    std::shared_ptr<const CompiledBias> bias = nullptr;
    bool nan = false;
  };

  void make_slots(int64_t slots);
  /// Searches pieces of at most max_frames frames, of streams that have nothing waiting.
  void search_pieces(const std::vector<Stream*>& streams, const EncodedBatch& pieces);
  /// Searches what each stream has waiting, as far as the search goes.
  void search_waiting(const std::vector<Stream*>& streams, bool last);
  /// Searches a batch, the first rows of which are these streams, and appends what it finds.
  /// Returns the frames that each stream has consumed.
  std::vector<int64_t> search_batch(std::span<Stream* const> streams, EncodedBatch batch,
                                    bool last);
  /// A batch with the biases of these streams, whose frames are zeros.
  EncodedBatch new_batch(std::span<Stream* const> streams) const;
  /// The waiting pieces as the rows of a batch.
  EncodedBatch assemble(std::span<Stream* const> streams) const;
  void append_piece(Stream& stream, const RowPiece& piece);
  std::vector<const Hypothesis*> ranked(const Stream& stream) const;
  Hypothesis whole(const Stream& stream, const Hypothesis& rest) const;

  PieceSearch search_;
  StreamLimits limits_;
  int64_t slot_count_ = 1;
  RowState slots_;  // [slots, ...] each; kStartSlot has the state at the start, and no stream
  RowState batch_;  // [max_batch, ...] each
  std::vector<int64_t> free_slots_;
  OpenStreams<Stream> streams_;
};

}  // namespace rtfx
