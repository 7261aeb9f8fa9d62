// This is the modified beam search of RNN-T and TDT for a whole batch. It finds at most one token
// per frame, as icefall, k2 and sherpa-onnx do (Kang et al., "Fast and parallel decoding for
// transducer", ICASSP 2023). The search maximises, over texts y,
//
//   P(y) = sum over alignments a of y of prod_t p(a_t | t, y_1 .. y_{u_t})
//
// where an alignment a has one label at each frame t, a token or blank. The labels are those of
// monotonic RNN-T (Tripathi et al., 2019). For t = 0 .. T-1:
//
//   1. The candidates of a hypothesis are its beam_size best labels, blank among them or not.
//   2. Each utterance keeps its beam_size best candidates.
//   3. Candidates of equal token sequences are merged, whether their last labels are tokens or
//      blanks. The best gets the sum of their probabilities and keeps its frames.
//   4. Where the label was a token, prediction network and language model move one step.
//
// Step 3 comes after step 2, as in icefall. So a beam may hold fewer than beam_size texts.
//
// icefall ranks the texts at the end by score / (tokens + context size), and score_norm divides by
// tokens + 1. With a language model, icefall chooses the candidates of step 2 by acoustic scores
// and adds the scores of the model afterwards. Here "pruning": "early" does so in step 1 alone, and
// step 2 compares fused scores. icefall treats <unk> like blank, and here <unk> is a token.
//
// TDT: labels are pairs of label and duration. A hypothesis jumps by the duration, but at least one
// frame, so that it still has one label at a frame. The label keeps the probability of duration 0
// in that case. The pair with duration 1 then makes the same text at the same frame, and step 3
// adds the two. A step is at the earliest frame of an utterance's hypotheses. Hypotheses at later
// frames wait: each is its own only candidate. Step 3 compares frames as well. At the end of the
// utterance, texts that jumped different distances beyond it are merged.
//
// NeMo has no such search of TDT. Its mAES also lets hypotheses at later frames wait and compete,
// but tokens of duration 0 stay at their frame. sherpa-onnx has a search of this name for NeMo's
// models (pull requests 3077 and 3589). It stays at a frame for up to 10 tokens, also with RNN-T.
// It gives all labels of a hypothesis the likeliest duration, and merges nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "algorithms/shared/batched/batched_search.h"
#include "algorithms/shared/batched/transducer_beam_options.h"
#include "algorithms/shared/beams/monotonic_beams.h"
#include "algorithms/shared/fused_beam/fused_search.h"

namespace rtfx {

/// Waits for the device once per step, and has at most as many steps as the longest utterance has
/// frames. With "loop": "graph" it does not wait, and does not count steps either. "kernels":
/// "fused" computes the same in about ten kernels. Scores are of score_dtype(), and those of
/// results are float32. Ties go to the hypothesis in the lower slot, then to the better label, then
/// to the lower label.
class ModifiedBeamSearch : public BeamSearch<TransducerBeamOptions> {
 public:
  using BeamSearch::BeamSearch;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;

 private:
  Counters counts() const override;
  void reset_counts() override;
  Hypotheses search(const EncodedBatch& batch, Loops& loops) override;
  std::vector<RowPiece> search_piece(const EncodedBatch& batch, bool last, RowState& state,
                                     HostReads& reads) override;
  MonotonicBeams beams_of(const EncodedBatch& batch, const BeamLm& lm) const;
  BeamLm beam_lm(const EncodedBatch& batch);

  std::optional<Transducer> transducer_;
  std::optional<FusedModel> fused_;
  int64_t steps_ = 0;
};

}  // namespace rtfx
