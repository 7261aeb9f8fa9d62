// Utterances that come in pieces, as the searches over a decoding graph have them (Streams of a
// decoder: wfst_streams.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/search.h"
#include "algorithms/shared/wfst/word_lattice.h"

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

// What searches over a decoding graph take from a batch, and what they make of it.

/// frames [B, T', D] -> [B, T', V+1] float32, contiguous, on their device: acoustic_scale * ln p(k
/// | frame t).
at::Tensor scaled_log_probs(const AcousticModel& model, const at::Tensor& frames,
                            double acoustic_scale);

/// The same on the host, and which rows hold a NaN: what a search on the CPU reads. Waits for the
/// batch's device once if that is a GPU.
struct HostEmissions {
  at::Tensor lp;   // [B, T', V+1] float32
  at::Tensor nan;  // [B] bool
};
HostEmissions host_emissions(const AcousticModel& model, const EncodedBatch& batch,
                             double acoustic_scale, HostReads& reads);

/// Numbers of the rows, long ones first, so that none is left for the end; equal ones in order.
std::vector<size_t> longest_first(const std::vector<int64_t>& lengths);

/// search(thread, row) for each row, long ones first, by `threads` threads. Throws what it throws.
void for_each_utterance(const std::vector<int64_t>& lengths, size_t threads,
                        const std::function<void(size_t thread, size_t row)>& search);

std::vector<int64_t> piece_streams(std::span<const WfstPiece> pieces);

/// Frames of each piece. Throws UserError where one is not as WfstPiece says.
std::vector<int64_t> piece_frames(std::span<const WfstPiece> pieces, int64_t columns,
                                  at::Device device);

/// One path as the result of its row: see wfst_hypotheses().
Hypothesis wfst_hypothesis(const WfstPath& path);

/// Tokens and their frames from the paths, score = -cost; on the host, where the paths are. `nan`,
/// [B] bool on the host: rows that are marked and empty, as those are that no path led through.
/// `lists`: of each row its n best paths, of which the first is the row's; without any, no lists.
Hypotheses wfst_hypotheses(const std::vector<WfstPath>& paths, const at::Tensor& nan,
                           const std::vector<std::vector<WfstPath>>& lists = {});

// Streams of the decoders that search a decoding graph.

/// Projected frames are scaled log-probabilities, [B, T', V+1] float32, contiguous, on the device
/// of the search. Nothing of a partial result is known to be stable. A NaN leaves no path alive,
/// and so marks the result.
class WfstStreams : public Streams {
 public:
  using Project = std::function<at::Tensor(const at::Tensor& frames)>;

  WfstStreams(std::unique_ptr<StreamSearch> search, Project project)
      : search_(std::move(search)), project_(std::move(project)) {}

  at::Tensor project(const at::Tensor& frames) override { return project_(frames); }
  int64_t open() override { return search_->open(); }
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override;
  PartialResult partial(int64_t stream) override;
  Hypothesis finish(int64_t stream) override;
  void close(int64_t stream) override;

 private:
  std::unique_ptr<StreamSearch> search_;
  Project project_;
};

// What a decoder offers that keeps lattices of words.

class LatticeSource {
 public:
  virtual ~LatticeSource() = default;

  /// After Decoder::prepare(): of each row the paths near its best one, within the option
  /// "lattice_beam"; without states where the row holds a NaN or no path gets through. Waits for
  /// the device as decode() does.
  virtual std::vector<WordLattice> lattices(const EncodedBatch& batch) = 0;

  /// Whose words and arcs the lattices are made of.
  virtual const WfstGraph& graph() const = 0;
};

}  // namespace rtfx
