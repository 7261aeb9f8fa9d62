// The beams of a batch of utterances on the device. Scores and states of the hypotheses are plain
// arrays. The labels of all steps form a tree, in which each hypothesis is linked to its parent in
// the step before. The tree is that of Grigoryan et al., "Pushing the Limits of Beam Search
// Decoding for Transducer-based ASR Models", 2025. Token sequences ("texts") are compared by
// hashes, and not token by token. FlatTexts can take the place of the tree and compare tokens, to
// measure what the tree and the hashes gain.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/hypotheses.h"
#include "algorithms/shared/beams/alignment_rule.h"
#include "algorithms/shared/beams/flat_texts.h"
#include "algorithms/shared/streams/piece_streams.h"
#include "algorithms/streams.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// The hash of a text is h(empty) = 0, h(y k) = h(y) * kHashMultiplier + 1 + k modulo 2^64. Tensors
/// hold its bits as int64.
constexpr int64_t kHashMultiplier = 6364136223846793005;

/// Shapes: B utterances, K slots of a beam, C columns of the tree, one for each step. A slot is the
/// place of a hypothesis in its beam. All tensors are contiguous and keep their addresses. No
/// member waits for the device, and all can be recorded into a graph.
struct BeamHypotheses {
  /// At the start, slot 0 of each beam holds the empty text with score 0, and the other slots are
  /// empty. `columns` bounds the number of steps. `like` has the device and the dtype of encoder
  /// frames or log-probabilities. Tests give another `hash_multiplier`.
  BeamHypotheses(AlignmentRule rule, int64_t batch, int64_t beam, int64_t columns, int64_t blank,
                 const at::TensorOptions& like, int64_t hash_multiplier = kHashMultiplier);

  /// The comparison of texts that are plain arrays.
  struct Comparison {
    bool by_tokens = false;  // compares tokens instead of hashes
    bool counted = false;    // counts the mistakes that hashes would make: FlatTexts::count()
  };
  /// Keeps the texts as plain arrays and writes no tree. Call this before the first step. It is not
  /// for searches in pieces.
  void use_flat_texts(Comparison comparison);

  /// Does one step: slot k of each beam becomes hypothesis parents[b, k] followed by labels[b, k].
  /// A label is a token, blank, or -1 for a hypothesis that stays unchanged. parents and labels are
  /// [B, K] int64, scores [B, K] of the type of `scores`. durations [B, K] int64 counts frames and
  /// is for TDT only.
  void append(const at::Tensor& parents, const at::Tensor& labels, const at::Tensor& scores,
              const at::Tensor& durations = {});

  /// Merges slots with equal texts; TDT hypotheses must be at the same frame too. The best of them
  /// (the lowest slot of equal ones) gets the sum of their probabilities, or keeps its own if `sum`
  /// is false. The others get -inf. Two texts count as equal if their hashes, last labels and
  /// lengths are equal.
  void merge(bool sum = true) { merge_at(time, sum); }
  /// Merges as merge() does, and compares `frames` [B, K] in place of TDT hypotheses' own frames.
  void merge_at(const at::Tensor& frames, bool sum = true);

  /// Returns the hash of each hypothesis followed by a token: labels [B, K, E] int64 -> [B, K, E].
  at::Tensor extended_hash(const at::Tensor& labels) const;

  /// Returns [B, K, K] bool: (b, i, j) is set where the text of slot i is the text of slot j and
  /// one more token. TDT hypotheses must be at the same frame as well.
  at::Tensor extends() const;

  /// Returns the best hypothesis of each beam, ranked by score / (tokens + 1) if `score_norm`, else
  /// by score. If `nbest` is more than 1, an n-best list of at most that length comes with it. A
  /// row is marked as NaN where `nan` [B] bool is set, a score is NaN or all scores are -inf.
  Hypotheses result(int64_t nbest, bool score_norm, const at::Tensor& nan) const;

  /// Passes all tensors but the tree to `transfer`, for searches in pieces.
  void transfer(StateTransfer& transfer) {
    transfer(scores);
    transfer(state, 1);
  }

  /// Returns which slots hold a hypothesis, [B, K] bool.
  at::Tensor alive() const;

  AlignmentRule rule;
  int64_t batch, beam, columns, blank, hash_multiplier;

  at::Tensor scores;  // [B, K] of score_dtype(), natural logarithm; -inf: the slot is empty

  at::Tensor state;        // [6, B, K] int64: the six tensors below are views of it
  at::Tensor hash;         // hash of the text
  at::Tensor last_label;   // last token, -1 at the start; CTC: last label, blank included
  at::Tensor lengths;      // number of tokens
  at::Tensor time;         // next frame
  at::Tensor prefix_hash;  // hash of the text without its last token
  at::Tensor run;          // tokens emitted since the last move in time

  // The tree: each step writes a column, [C, B, K] int32.
  at::Tensor labels;     // token, blank, or -1
  at::Tensor parents;    // slot in the column before
  at::Tensor durations;  // TDT: frames; undefined for others
  at::Tensor column;     // [1] int64: number of columns that are written

  std::optional<FlatTexts> texts;  // in place of the tree
  Comparison comparison;           // used with `texts` only
};

/// Throws UserError when a hypothesis of a transducer cannot be expanded by `beam_size` +
/// `expansion_beta` tokens. CTC has no such bound, since a step chooses among all hypotheses with
/// all labels.
void require_beam_fits(const Description& description, int64_t beam_size,
                       const AcousticModel& model, int64_t expansion_beta = 0);

/// The state of a beam at the start of a piece, for read_pieces().
struct BeamPiece {
  explicit BeamPiece(const BeamHypotheses& h) : before(h.state.clone()) {}
  at::Tensor before;  // [6, B, K], BeamHypotheses::state
};

/// Returns what a piece of a stream (algorithms/shared/streams) added to each hypothesis.
/// The piece wrote the first `columns` columns of the tree of `h`. consumed [B] int64 counts the
/// frames of the piece that no hypothesis needs any more; hypotheses' frames count from there
/// afterwards. Rows are marked as NaN as in BeamHypotheses::result(). Waits for the device.
std::vector<RowPiece> read_pieces(BeamHypotheses& h, const BeamPiece& piece, int64_t columns,
                                  const at::Tensor& consumed, const at::Tensor& nan,
                                  HostReads& reads);

}  // namespace rtfx
