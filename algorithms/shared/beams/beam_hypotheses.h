// The beams of a batch of utterances on the device: the hypotheses' scores and states as plain
// arrays, and the symbols of all steps as a tree, linked from each hypothesis to its parent in the
// step before (Grigoryan et al., "Pushing the Limits of Beam Search Decoding for Transducer-based
// ASR Models", 2025). Texts are compared by hashes, never token by token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/hypotheses.h"
#include "algorithms/row_state.h"
#include "algorithms/shared/streams/piece_streams.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// How labels move a hypothesis in time and make text.
enum class Lattice {
  ctc,   // every label moves one frame; a label that repeats the one before it is no new token
  rnnt,  // blank moves one frame, tokens none
  tdt,   // every label moves by its duration
};

/// Multiplier of the hash of a text: h(empty) = 0, h(y k) = h(y) * kHashMultiplier + 1 + k modulo
/// 2^64 (int64 tensors hold the bits).
constexpr int64_t kHashMultiplier = 6364136223846793005;

/// All tensors are contiguous and keep their addresses; B utterances, K slots of a beam, C columns,
/// one for each step. No member waits for the device, and all can be recorded into a graph.
struct BeamHypotheses {
  /// At the start slot 0 of each beam holds the empty text with score 0, the others nothing.
  /// `columns`: most steps that will come. `hash_multiplier`: other values are for tests.
  BeamHypotheses(Lattice lattice, int64_t batch, int64_t beam, int64_t columns, int64_t blank,
                 at::Device device, int64_t hash_multiplier = kHashMultiplier);

  /// One step. Slot k of each beam becomes hypothesis parents[b, k] followed by labels[b, k]: a
  /// token, blank, or -1 for a hypothesis that stays as it is. parents, labels [B, K] int64, scores
  /// [B, K] float32; durations [B, K] int64, frames, for TDT only.
  void append(const at::Tensor& parents, const at::Tensor& labels, const at::Tensor& scores,
              const at::Tensor& durations = {});

  /// Slots with equal texts become one, for TDT if they are at the same frame too: the best of them
  /// (the lowest of equals) gets the sum of their probabilities, or with `sum` false keeps its own;
  /// the others get -inf. Equal texts: equal hash, last label and length.
  void merge(bool sum = true) { merge_at(time, sum); }
  /// The same with `frames` [B, K] in place of TDT hypotheses' own frames.
  void merge_at(const at::Tensor& frames, bool sum = true);

  /// Hash of each hypothesis followed by a token: labels [B, K, E] int64 -> [B, K, E].
  at::Tensor extended_hash(const at::Tensor& labels) const;

  /// [B, K, K] bool: (b, i, j) is set where the text of slot i is that of slot j and one token
  /// more; for TDT, where they are at the same frame as well.
  at::Tensor extends() const;

  /// The best of each beam, by score / (tokens + 1) if `score_norm`, else by score; if `nbest` is
  /// more than 1 with a list of so many, or of all. `nan` [B] bool marks rows, to which it adds
  /// those with NaN scores.
  Hypotheses result(int64_t nbest, bool score_norm, const at::Tensor& nan) const;

  /// For searches in pieces: all but the tree.
  void walk(StateWalk& walk) {
    walk(scores);
    walk(state, 1);
  }

  /// Slots that hold something, [B, K] bool.
  at::Tensor alive() const;

  Lattice lattice;
  int64_t batch, beam, columns, blank, hash_multiplier;

  at::Tensor scores;  // [B, K] float32, natural logarithm; -inf: the slot is empty

  at::Tensor state;        // [6, B, K] int64, of these:
  at::Tensor hash;         // of the text
  at::Tensor last_label;   // last token, -1 at the start; CTC: last label, blank included
  at::Tensor lengths;      // tokens
  at::Tensor time;         // next frame
  at::Tensor prefix_hash;  // of the text without its last token
  at::Tensor run;          // tokens emitted since the last move in time

  // The tree, [C, B, K] int32: what each step wrote into each slot
  at::Tensor labels;     // token, blank, or -1
  at::Tensor parents;    // slot in the column before
  at::Tensor durations;  // TDT: frames; undefined for others
  at::Tensor column;     // [1] int64: columns that are written
};

// What the options of all beam searches share.

/// The kind of score of a beam search: the logarithm of a text's probability over the alignments
/// that the beam kept, with blanks and durations, and what a language model adds.
inline constexpr char kBeamScore[] = "text_logprob";

/// Throws UserError when `beam_size` hypotheses could not differ in their next token.
void require_beam_fits(const Description& description, int64_t beam_size,
                       const AcousticModel& model);

// Batched beam searches in pieces (algorithms/shared/streams): what a piece adds to each
// hypothesis, read off its tree.

/// A beam at the start of a piece.
struct BeamPiece {
  explicit BeamPiece(const BeamHypotheses& h) : before(h.state.clone()) {}
  at::Tensor before;  // [6, B, K], BeamHypotheses::state
};

/// The tree of `h`, `columns` of which are written since `piece`. consumed [B] int64: frames of the
/// piece that are done, from which on the hypotheses' frames count now; nan [B] bool. Waits for the
/// device.
std::vector<RowPiece> read_pieces(BeamHypotheses& h, const BeamPiece& piece, int64_t columns,
                                  const at::Tensor& consumed, const at::Tensor& nan,
                                  HostReads& reads);

}  // namespace rtfx
