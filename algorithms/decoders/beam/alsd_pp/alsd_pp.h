// ALSD++ is the alignment-length synchronous beam search of RNN-T and TDT for a whole batch,
// without decisions of the host. It was published by Grigoryan et al., "Pushing the Limits of Beam
// Search Decoding for Transducer-based ASR Models", 2025, after Saon et al., ICASSP 2020. The
// search maximises, over texts y,
//
//   P(y) = sum over alignments a of y of prod_i p(a_i | t_i, y_1 .. y_{u_i})
//
// Each step appends a label to all hypotheses of all utterances, until no hypothesis has a frame
// left:
//
//   1. Each hypothesis gets its beam_size best labels as candidates; for TDT, pairs of label and
//      duration. After max_symbols tokens at a frame, blank is the only candidate. For TDT it has
//      the likeliest duration (1 if that is 0) and its probability. A hypothesis behind its last
//      frame is its own only candidate.
//   2. Each utterance keeps its beam_size best candidates.
//   3. Equal texts at equal frames are merged: the best gets the sum of their probabilities.
//   4. Where the label was a token, prediction network and language model move one step.
//
// With "window": W > 1 (RNN-T), one joint call looks at several frames of each hypothesis, as the
// greedy search of WIND does (Xu et al., Interspeech 2025, arXiv 2505.13765). Until its next token
// the prediction stays the same. So step 1 has these candidates for a hypothesis y at frame t, with
// e the end of its window:
//
//   y k at frame i   ln p(k | i, y) + sum of ln p(blank | j, y) over t <= j < i,   t <= i < e
//   y at frame e                      sum of ln p(blank | j, y) over t <= j < e
//
// Windows are [0, W), [W, 2 W), ... of the utterance, and a hypothesis looks at the rest of its
// own. So texts whose last tokens are at different frames are merged where the window ends. After
// max_symbols tokens at a frame, tokens are candidates from the next frame on. Each alignment is
// still counted once, and P(y) is the same. A window of 1 is the search above.
//
// WIND's paper has a beam search as well, whose code is not published. The rule above is rtfx's
// own: it applies the paper's windows to ALSD++, and its results are not compared with theirs.
//
// Finished hypotheses compete with the others, and only max_symbols bounds the length of a text. It
// counts the tokens of the best alignment among those that were merged. So a text's score is
// exactly ln P(y) if the beam drops no alignment and no text has max_symbols tokens at a frame. TDT
// also needs merge_finished. Without it, equal texts that jumped different distances beyond the end
// are several results, each with a part of P(y).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "algorithms/shared/batched/batched_search.h"
#include "algorithms/shared/batched/transducer_beam_options.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/beams/transducer_beams.h"
#include "algorithms/shared/fused_beam/fused_search.h"

namespace rtfx {

struct AlsdPpOptions : TransducerBeamOptions {
  int64_t max_symbols = 10;  // tokens per frame
  int64_t window = 1;        // frames per hypothesis and joint call; above 1 for RNN-T only
  /// "tree", or "flat" for comparison, where each step copies all texts.
  std::string storage = "tree";
  std::string merge_by = "hash";  // or "tokens": flat texts are compared token by token
  bool count_collisions = false;  // of hashes, found with flat texts
  bool merge_finished = false;    // TDT: equal texts that end at different frames become one too
  /// "none", or "nemo" for NeMo's arithmetic where it differs from the algorithm above: with
  /// early pruning, a blank after max_symbols tokens keeps its acoustic score.
  std::string compatibility = "none";

  static const OptionTable<AlsdPpOptions>& table();
};

/// Waits for the device once per step. With "loop": "graph" it does not wait, and does not count
/// steps either. The number of steps is the largest number of labels of any hypothesis; with
/// windows, blanks of one window count as one. "kernels": "fused" computes the same in about ten
/// kernels, without windows. Scores are of score_dtype(), and those of results are float32. Ties go
/// to the hypothesis in the lower slot, then to the better label, then to the lower label.
class AlsdPp : public BeamSearch<AlsdPpOptions> {
 public:
  using BeamSearch::BeamSearch;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  /// Throws UserError with "storage": "flat", which is for whole utterances.
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override;

 private:
  struct State;
  Counters counts() const override;
  void reset_counts() override;
  Hypotheses search(const EncodedBatch& batch, Loops& loops) override;
  /// Searches a row until one of its hypotheses needs a frame of the next piece. Frames that other
  /// hypotheses have not passed yet are given once more with that piece.
  std::vector<RowPiece> search_piece(const EncodedBatch& batch, bool last, RowState& state,
                                     HostReads& reads) override;
  State start(const EncodedBatch& batch, const BeamLm& lm) const;
  void step(State& state) const;
  Expansions expand_frame(const State& state) const;
  Expansions expand_window(const State& state) const;
  at::Tensor forced_blank(const LogProbs& next, const at::Tensor& fused) const;

  /// Throws UserError for options of flat texts that do not go together.
  void require_flat_options() const;

  std::optional<Transducer> transducer_;
  std::optional<FusedModel> fused_;
  int64_t steps_ = 0, joint_rows_ = 0;
  std::optional<FlatTexts> compared_;  // texts of the last batch, with "count_collisions"
};

}  // namespace rtfx
