// Utterances in pieces, searched on a GPU.
#pragma once

#include "algorithms/decoders/wfst/ctc_wfst/passing_memory.h"
#include "algorithms/decoders/wfst/ctc_wfst/passing_paths.h"
#include "algorithms/open_streams.h"
#include "algorithms/shared/wfst/wfst_batch.h"

namespace rtfx {

/// advance() searches all pieces by one kernel and waits for the GPU twice: for how they ended, and
/// for their traces; twice more whenever the memory of traces, or of a stream's tokens, has to
/// grow. partial() and finish() do the same for a stream that was never advanced, with a piece
/// without frames. open() and close() do not wait.
class GpuStreams : public StreamSearch {
 public:
  /// `word_costs`: [W + 1] float32 on the GPU, of streams that are opened without; or undefined.
  GpuStreams(std::shared_ptr<PassingMemory> memory, float beam, int64_t max_active,
             at::Tensor word_costs);

  int64_t open(std::optional<std::vector<float>> word_costs) override;
  void advance(std::span<const WfstPiece> pieces) override;
  WfstPath partial(int64_t stream) override;
  WfstPath finish(int64_t stream) override;
  void close(int64_t stream) override;

 private:
  struct Stream {
    int32_t entry;
    at::Tensor word_costs;
    PieceHistory history;
  };

  void make_entries(int64_t entries, int64_t capacity);
  /// The stream's history, which holds the start of the search at least.
  const PieceHistory& begun(int64_t stream);
  /// Those of `open`, by their index in `streams`, that had no room stay in it.
  void search(std::span<const WfstPiece> pieces, const std::vector<Stream*>& streams,
              std::vector<size_t>& open);

  std::shared_ptr<PassingMemory> memory_;
  float beam_;
  int64_t max_active_;
  at::Tensor word_costs_;
  at::Tensor store_state_, store_cost_;  // [entries, capacity]
  std::vector<int32_t> free_entries_;    // the next one at the end
  OpenStreams<Stream> streams_;
  std::vector<int32_t> positions_;  // scratch of PieceHistory::append()
  HostReads reads_;
};

}  // namespace rtfx
