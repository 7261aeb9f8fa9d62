// Streams of a batched search that can stop between two frames and go on later. They have slots for
// the states of open streams, batches of a fixed size, and hypotheses on the host.
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
  /// One hypothesis. There are always as many slots as the search's beam has.
  struct Slot {
    size_t origin = 0;  // the slot before the piece that it continues
    /// Tokens and durations of the piece, with frames from its first frame on. The score is that of
    /// the whole hypothesis, or -inf where the slot is empty.
    Hypothesis added;
  };
  std::vector<Slot> slots;
  int64_t consumed = 0;  // frames that the search no longer needs; it gets the others again
  bool nan = false;
};

/// A search in pieces, as a decoder describes it.
struct PieceSearch {
  /// See Streams::project().
  std::function<at::Tensor(const at::Tensor& frames)> project;

  /// Searches batch.frames [B, T', X] from `state` on, and replaces `state` by the state behind
  /// them. `last` says that no frames follow. Rows of length 0 keep their state, but still give
  /// their result if `last` is set.
  std::function<std::vector<RowPiece>(const EncodedBatch& batch, bool last, RowState& state)>
      search;

  at::Tensor like;      // [1, 1, X], dtype, device and width of projected frames
  size_t beam = 1;      // slots
  bool at_end = false;  // finish() must call search() once more
  /// Rows may have biases (EncodedBatch::biases). The first tensor of a state then holds the states
  /// of the rows' own models, which are zero at the start of a text.
  bool takes_biases = false;
  bool score_norm = false;  // hypotheses are ranked by score / (tokens + 1)
  size_t nbest = 1;         // results have an n-best list if it is more than 1
};

/// Makes a greedy search, which has one hypothesis and never gets a frame again. `search` works
/// like Decoder::decode() but goes on from `state`. Its scores are sums since the start of the
/// utterance.
PieceSearch greedy_in_pieces(
    bool takes_biases, std::function<at::Tensor(const at::Tensor& frames)> project,
    const at::Tensor& like,
    std::function<Hypotheses(const EncodedBatch& batch, Loops& loops, RowState& state)> search);

/// The ranking that a beam search returns; see PieceSearch.
struct BeamRanking {
  int64_t beam, nbest;
  bool score_norm;
};

/// Makes a batched beam search whose rows may have biases. `search` is PieceSearch::search.
PieceSearch beam_in_pieces(std::function<at::Tensor(const at::Tensor& frames)> project,
                           const at::Tensor& like, const BeamRanking& ranking,
                           std::function<std::vector<RowPiece>(const EncodedBatch& batch, bool last,
                                                               RowState& state, HostReads& reads)>
                               search);

/// On the device, each call of push() costs as much as one search of max_batch rows, even for fewer
/// rows. The host drives the loops. Pieces of up to max_frames frames get into the batch by one
/// copy. Longer pieces, and pieces of streams with waiting frames, cost a copy for each row.
class PieceStreams : public Streams {
 public:
  /// Runs a search without frames once, to get the state at the start.
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
    bool searched = false;         // if not, its state is that of kStartSlot
    int64_t offset = 0;            // frames that the search no longer needs
    Hypothesis stable;             // the common beginning of all hypotheses
    std::vector<Hypothesis> beam;  // the rest of each hypothesis; its score is that of the whole
    at::Tensor waiting;            // [n, X], frames that are searched again; undefined without any
    std::shared_ptr<const CompiledBias> bias = nullptr;
    bool nan = false;
  };

  void make_slots(int64_t slots);
  /// Searches pieces of at most max_frames frames, of streams without waiting frames.
  void search_pieces(const std::vector<Stream*>& streams, const EncodedBatch& pieces);
  /// Searches the waiting frames of each stream, as far as the search goes.
  void search_waiting(const std::vector<Stream*>& streams, bool last);
  /// Searches a batch whose first rows are these streams, and appends the results to the streams.
  /// Returns the frames that each stream has consumed.
  std::vector<int64_t> search_batch(std::span<Stream* const> streams, EncodedBatch batch,
                                    bool last);
  /// Returns a batch with the biases of these streams, whose frames are zeros.
  EncodedBatch new_batch(std::span<Stream* const> streams) const;
  /// Returns a batch whose rows are the waiting frames of the streams.
  EncodedBatch assemble(std::span<Stream* const> streams) const;
  void append_piece(Stream& stream, const RowPiece& piece);
  std::vector<const Hypothesis*> ranked(const Stream& stream) const;
  Hypothesis whole(const Stream& stream, const Hypothesis& rest) const;

  PieceSearch search_;
  StreamLimits limits_;
  int64_t slot_count_ = 1;
  RowState slots_;  // [slots, ...] each; kStartSlot belongs to no stream
  RowState batch_;  // [max_batch, ...] each
  std::vector<int64_t> free_slots_;
  OpenStreams<Stream> streams_;
};

}  // namespace rtfx
