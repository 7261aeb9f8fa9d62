// AES++ is the adaptive expansion search of RNN-T and TDT for a whole batch, without decisions of
// the host. It was published by Grigoryan et al., "Pushing the Limits of Beam Search Decoding for
// Transducer-based ASR Models", 2025, after Kim et al., IEEE SPL 2020. The search maximises, over
// texts y, a part of
//
//   P(y) = sum over alignments a of y of prod_i p(a_i | t_i, y_1 .. y_{u_i})
//
// The part holds alignments with at most num_steps tokens at a frame. It also holds some with one
// more there, since step 2 goes on from a text that step 1 made. The search goes frame by frame,
// for all utterances together. At frame t:
//
//   1. Prefix search: P(y k) += P(y) p(k | t, y), if the beam holds both texts.
//   2. num_steps times, as long as a hypothesis is open, which means that it has no blank yet:
//      a. Each open hypothesis gets its beam_size + expansion_beta best labels as candidates.
//         Labels that are expansion_gamma or more (in ln p) worse than its best one are left out,
//         and so are tokens that make a text which the beam already holds.
//      b. Each utterance keeps the beam_size best of the candidates and of the other hypotheses.
//      c. Where the label was a token, prediction network and language model move one step.
//   3. Each hypothesis without a blank gets one, which is never fused.
//
// Prefix search is over one token. It uses the scores from before the frame, and always fused
// labels. With early pruning, the bound of 2a is on acoustic scores. Two alignments of an RNN-T
// text meet only in prefix search, so nothing else is merged.
//
// TDT follows the rules of aes. Labels are pairs of label and duration. Hypotheses at a later frame
// wait and compete in 2b. Only tokens of duration 0 are expanded again at t. Prefix search adds
// only such tokens, and 2a leaves out only such tokens, if the beam holds their text at t. In 2b
// and 3, equal texts at equal frames are merged. The blank of 3 has the likeliest duration, or the
// smallest one above 0 if that is 0.
//
// At the end of the utterance, equal texts that jumped different distances beyond it are not
// merged. So the results of TDT may hold a text several times, each time with a part of its
// probability.
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

struct AesPpOptions : TransducerBeamOptions {
  int64_t num_steps = 2;         // tokens per frame
  int64_t expansion_beta = 2;    // labels of a hypothesis beyond beam_size
  double expansion_gamma = 2.3;  // distance to the best label, in ln p
  /// "none", or "nemo" for NeMo's arithmetic where it differs from the algorithm above. In RNN-T,
  /// NeMo looks up whether a hypothesis still needs its blank in the slot that it moves to, not in
  /// its parent's slot. So some hypotheses go on without a blank. With early pruning and
  /// lm_weighted_full, acoustic scores of labels count twice. In NeMo they do so even if the
  /// language model has the weight 0; here such a model never changes results.
  std::string compatibility = "none";

  static const OptionTable<AesPpOptions>& table();
};

/// Waits for the device once per frame and once per expansion, at most num_steps + 2 times per
/// frame. With "loop": "graph" it does not wait, and does not count frames and expansions either.
/// "kernels": "fused" computes the same in fewer kernels. Scores are of score_dtype(), and those of
/// results are float32. Ties go to the hypothesis in the lower slot, then to the better label, then
/// to the lower label.
class AesPp : public BeamSearch<AesPpOptions> {
 public:
  using BeamSearch::BeamSearch;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;

 private:
  class Search;  // over one batch

  Counters counts() const override;
  void reset_counts() override;
  Hypotheses search(const EncodedBatch& batch, Loops& loops) override;
  std::vector<RowPiece> search_piece(const EncodedBatch& batch, bool last, RowState& state,
                                     HostReads& reads) override;
  FusedFrame::Options fused_options() const;

  std::optional<Transducer> transducer_;
  std::optional<FusedModel> fused_;
  int64_t frames_visited_ = 0, expansions_ = 0;
};

}  // namespace rtfx
