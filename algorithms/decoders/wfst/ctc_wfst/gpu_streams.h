// Streams that are searched on a GPU.
#pragma once

#include "algorithms/decoders/wfst/ctc_wfst/passing_memory.h"
#include "algorithms/decoders/wfst/ctc_wfst/passing_paths.h"
#include "algorithms/open_streams.h"
#include "algorithms/shared/wfst/wfst_batch.h"

namespace rtfx {

/// advance() searches all pieces with one kernel and waits for the GPU twice: for their ends, and
/// for their traces. It waits twice more whenever the memory of traces, or of a stream's tokens,
/// must grow. partial() and finish() do the same, with a piece without frames, for a stream that
/// was never advanced. open() and close() do not wait.
class GpuStreams : public StreamSearch {
 public:
  /// `word_costs` [W + 1] float32 on the GPU are the default of streams that are opened without
  /// word costs. They may be undefined.
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
  /// Returns the stream's history, which holds at least the start of the search.
  const PieceHistory& begun(int64_t stream);
  /// Searches the pieces `open` (indices into `streams`). Those without room stay in `open`.
  void search(std::span<const WfstPiece> pieces, const std::vector<Stream*>& streams,
              std::vector<size_t>& open);

  std::shared_ptr<PassingMemory> memory_;
  float beam_;
  int64_t max_active_;
  at::Tensor word_costs_;
  at::Tensor store_state_, store_cost_;  // [entries, capacity]
  std::vector<int32_t> free_entries_;    // the last one is the next to be used
  OpenStreams<Stream> streams_;
  std::vector<int32_t> positions_;  // scratch of PieceHistory::append()
  HostReads reads_;
};

}  // namespace rtfx
