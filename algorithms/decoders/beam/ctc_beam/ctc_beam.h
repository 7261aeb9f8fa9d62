// CTC prefix beam search for a whole batch, with shallow fusion (Graves, Jaitly, ICML 2014; Hannun
// et al. 2014). The search maximises, over texts y,
//
//   ln P(y) + alpha * ln p_lm(y) + beta * |y|
//   P(y) = sum over frame labels a that collapse to y of prod_t p(a_t | t)
//
// At each frame t, for all utterances:
//
//   1. The candidates are each hypothesis with every label. A new token, which is neither blank nor
//      the label before it, also gets alpha * ln p_lm(token | y) + beta.
//   2. Each utterance keeps its beam_size best candidates, without those that are beam_threshold
//      or more worse than the best.
//   3. Hypotheses of equal text and equal last label are merged: the best gets the sum of their
//      probabilities, or keeps its own with "merge": "max".
//
// At the end, alpha * ln p_lm(</s> | y) is added if lm_end is set, and equal texts are merged.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "algorithms/nbest_risk.h"
#include "algorithms/shared/batched/batched_search.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/ngram_lm/fusion.h"

namespace rtfx {

struct CtcBeamOptions {
  int64_t beam_size = 4;
  double beam_threshold = 20;  // distance to the best score, natural logarithm
  std::string merge = "sum";   // or "max", see step 3
  double temperature = 1;      // logits are divided by it
  bool score_norm = false;     // rank by score / (tokens + 1)
  int64_t nbest = 1;
  std::optional<MbrOptions> mbr;
  std::optional<LmOptions> lm;
  std::optional<PhraseBoostOptions> boost;  // phrases: see BeamLm::rows
  std::vector<std::string> allowed;         // characters, see allowed_tokens()
  double blank_penalty = 0;                 // subtracted from blank's logit, see blank_penalty.h
  std::optional<double> skip_blank;         // threshold, see blank_skipping.h
  bool lm_end = true;
  std::string kernels = "operators";  // of LibTorch, or "fused"
  std::string loop = "host";          // "host", "graph": see loop_driver.h

  static const OptionTable<CtcBeamOptions>& table();
};

/// Waits for the device once per frame. With "loop": "graph" or "kernels": "fused" it does not
/// wait. A fused kernel searches all frames of an utterance with one block of threads
/// (fused_beam/ctc_phases.h). The frame of a token is the first frame of its run in the best
/// alignment among those that were merged. Scores are of score_dtype(), and those of results are
/// float32. Ties go to the hypothesis in the lower slot, then to the lower label.
class CtcBeam : public BeamSearch<CtcBeamOptions> {
 public:
  using BeamSearch::BeamSearch;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;

 private:
  struct State;
  Hypotheses search(const EncodedBatch& batch, Loops& loops) override;
  std::vector<RowPiece> search_piece(const EncodedBatch& batch, bool last, RowState& carried,
                                     HostReads& reads) override;
  State start(const at::Tensor& logits, const at::Tensor& lengths) const;
  void step(State& state) const;
  void end(State& state) const;
  void fused_steps(State& state) const;
  at::Tensor candidates(const State& state) const;
  Hypotheses result(State& state, const at::Tensor& logits, const at::Tensor& lengths) const;

  std::shared_ptr<const AcousticModel> model_;
};

}  // namespace rtfx
