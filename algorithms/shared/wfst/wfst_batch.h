// The surroundings of a search over a decoding graph: emissions and hypotheses of a batch, streams,
// and lattices of words.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/search.h"
#include "algorithms/shared/wfst/word_boosting.h"
#include "algorithms/shared/wfst/word_lattice.h"

namespace rtfx {

/// The next frames of a stream.
struct WfstPiece {
  int64_t stream = 0;
  at::Tensor lp;  // [frames, V+1] float32, scaled log-probabilities, contiguous, on the search's
                  // device; frames may be 0
};

/// Searches many streams at a time, each with its own state. Results equal those of the whole
/// utterance bit for bit, however it is cut into pieces and whichever streams are searched
/// together. Only one thread at a time may call. A stream that is not open, or that has two pieces
/// in one call, is a UserError.
class StreamSearch {
 public:
  virtual ~StreamSearch() = default;

  /// Opens a stream and returns its number, which no later stream gets. `word_costs` [W + 1] come
  /// from WordBoosting (word_boosting.h), and are empty for a stream without boosting. Without
  /// them, the decoder's option "boost" applies. Does not wait for the device: the search begins
  /// with the first advance(), partial() or finish().
  virtual int64_t open(std::optional<std::vector<float>> word_costs = std::nullopt) = 0;

  /// Replaces the word costs of a stream from its next frame on. Before its first frame, the stream
  /// is then as if opened with them. Does not wait for the device.
  virtual void set_word_costs(int64_t stream, std::optional<std::vector<float>> word_costs) = 0;

  /// Searches the pieces together, and returns when the host has the results. If it throws, the
  /// streams of the call can only be closed.
  virtual void advance(std::span<const WfstPiece> pieces) = 0;

  /// Returns the best path so far, in the expectation of more frames: the token of least cost,
  /// whether its state is final or not. Later frames may change its last words.
  virtual WfstPath partial(int64_t stream) = 0;
  /// Returns the best path of an utterance that ends here: final states come first.
  virtual WfstPath finish(int64_t stream) = 0;

  /// Closes the stream, at its end or before.
  virtual void close(int64_t stream) = 0;
};

/// Returns acoustic_scale * ln p(k | frame t): frames [B, T', D] -> [B, T', V+1] float32,
/// contiguous, on the device of the frames.
at::Tensor scaled_log_probs(const AcousticModel& model, const at::Tensor& frames,
                            double acoustic_scale);

/// Scaled log-probabilities on the host, and which rows hold a NaN.
struct HostEmissions {
  at::Tensor lp;   // [B, T', V+1] float32
  at::Tensor nan;  // [B] bool
};
/// Returns the emissions of a batch for a search on the CPU. Waits once for a batch on a GPU.
HostEmissions host_emissions(const AcousticModel& model, const EncodedBatch& batch,
                             double acoustic_scale, HostReads& reads);

/// Returns the numbers of the rows, longest first; rows of equal length keep their order.
std::vector<size_t> longest_first(const std::vector<int64_t>& lengths);

/// Calls search(thread, row) for each row on `threads` threads, the longest rows first. Throws what
/// `search` throws.
void for_each_utterance(const std::vector<int64_t>& lengths, size_t threads,
                        const std::function<void(size_t thread, size_t row)>& search);

/// Returns the stream of each piece.
std::vector<int64_t> piece_streams(std::span<const WfstPiece> pieces);

/// Returns the frames of each piece. Throws UserError for a tensor that breaks WfstPiece's rules.
std::vector<int64_t> piece_frames(std::span<const WfstPiece> pieces, int64_t columns,
                                  at::Device device);

/// Returns the number of paths that end in no final state, so that their last word may be
/// incomplete. Rows without a path do not count.
int64_t count_not_final(const std::vector<WfstPath>& paths);

/// The text of a word of a path, by its number from 1 on.
using WordText = std::function<std::string(int32_t word)>;

/// Returns the words of the graph, which is kept alive.
WordText word_text(const WfstGraph& graph);

/// Returns a path as the result of its row: see wfst_hypotheses().
Hypothesis wfst_hypothesis(const WfstPath& path, const WordText& text);

/// Makes results on the host: words, tokens and frames of the paths, with score = -cost. Rows that
/// `nan` ([B] bool on the host) marks are empty and marked, and so are rows without a path. `lists`
/// holds the n best paths of each row, the row's own first; without them there are no n-best lists.
Hypotheses wfst_hypotheses(const std::vector<WfstPath>& paths, const at::Tensor& nan,
                           const WordText& text,
                           const std::vector<std::vector<WfstPath>>& lists = {});

/// The n-best lists of streams. Without a function there are none.
struct StreamLists {
  /// Returns the best paths of an utterance, as decode() does: the best one first, none if no path
  /// is alive. `lp` [frames, V+1] are the projected frames of the whole utterance.
  std::function<std::vector<WfstPath>(const at::Tensor& lp,
                                      const std::shared_ptr<const CompiledBias>& bias)>
      search = {};
  at::Tensor no_frames = {};  // [0, V+1], dtype and device of projected frames
};

/// Streams of the decoders that search a decoding graph. Projected frames are scaled
/// log-probabilities [B, T', V+1] float32, contiguous, on the device of the search. No part of a
/// partial result is known to be stable. A NaN leaves no path alive, and so marks the result.
///
/// With lists, a stream keeps its projected frames, and finish() searches them once more as a whole
/// utterance. So set_bias() after the first frame is a UserError.
class WfstStreams : public Streams {
 public:
  using Project = std::function<at::Tensor(const at::Tensor& frames)>;

  /// `boosting` must outlive the streams.
  WfstStreams(std::unique_ptr<StreamSearch> search, Project project, WordText text,
              const WordBoosting& boosting, StreamLists lists)
      : search_(std::move(search)),
        project_(std::move(project)),
        text_(std::move(text)),
        boosting_(boosting),
        lists_(std::move(lists)) {}

  at::Tensor project(const at::Tensor& frames) override { return project_(frames); }
  int64_t open() override;
  void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias) override;
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override;
  PartialResult partial(int64_t stream) override;
  Hypothesis finish(int64_t stream) override;
  void close(int64_t stream) override;

 private:
  /// The inputs of a stream's search, for its n-best list.
  struct KeptPieces {
    std::vector<at::Tensor> pieces;  // no_frames, then copies of the pieces that have frames
    std::shared_ptr<const CompiledBias> bias = nullptr;
  };

  std::unique_ptr<StreamSearch> search_;
  Project project_;
  WordText text_;
  const WordBoosting& boosting_;
  StreamLists lists_;
  std::map<int64_t, KeptPieces> kept_;  // of the open streams, if there are lists
};

/// A decoder that can return lattices of words.
class LatticeSource {
 public:
  virtual ~LatticeSource() = default;

  /// Returns the paths of each row that are within the option "lattice_beam" of its best one. The
  /// lattice of a row with a NaN, or without a path, has no states. Call it after
  /// Decoder::prepare(). Waits for the device as decode() does.
  virtual std::vector<WordLattice> lattices(const EncodedBatch& batch) = 0;

  /// Returns the graph whose words and arcs the lattices refer to.
  virtual const WfstGraph& graph() const = 0;
};

}  // namespace rtfx
