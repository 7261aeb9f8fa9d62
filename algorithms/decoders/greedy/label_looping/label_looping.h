// This is the label-looping greedy search of Bataev et al., "Label-Looping: Highly Efficient
// Decoding for Transducers", SLT 2024. It serves RNN-T, TDT and multi-blank RNN-T (arXiv
// 2211.03541), with an optional blank search window (WIND, arXiv 2505.13765).
//
//   outer loop over labels:
//     inner loop over frames until every active row holds a non-blank label (or has no frame left)
//     append the labels; one step of the prediction network for all rows
//
// With a window of W > 1, one joint call looks at up to W frames of a row. While the prediction
// stays the same, every frame before the next label is blank.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/decoder.h"
#include "algorithms/decoders/greedy/label_looping/script.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/batched/batched_search.h"
#include "algorithms/shared/biasing/greedy_fusion.h"
#include "algorithms/shared/transducer/needed_rows.h"
#include "algorithms/shared/transducer/transducer.h"
#include "models/acoustic_model.h"

namespace rtfx {

struct LabelLoopingOptions {
  int64_t window = 1;                   // frames per row and joint call
  bool project_encoder_once = true;     // joint.enc once for the whole batch
  bool project_prediction_once = true;  // joint.pred once per predictor step
  int64_t max_symbols = 10;             // tokens per frame
  std::string score_kind = "logit";
  bool count_rows = false;    // count the rows that were needed, see NeededRows
  std::string loop = "host";  // "host", "replay", "graph": see loop_driver.h; "script": TorchScript
  std::optional<LmOptions> lm;              // language model, see GreedyFusion
  std::optional<PhraseBoostOptions> boost;  // phrases, see GreedyFusion
  std::vector<std::string> allowed;         // characters, see allowed_tokens()
  double blank_penalty = 0;                 // subtracted from blank's logit, see blank_penalty.h
  std::optional<double> skip_blank;         // threshold, see blank_skipping.h

  static const OptionTable<LabelLoopingOptions>& table();
};

/// Waits for the device once per test of a loop, which makes 1 + 2 * outer_iters + inner_iters host
/// reads. With "loop": "graph" it does not wait, and does not count iterations either. outer_iters
/// is the largest number of labels of any row, plus one. The extra iteration is missing if
/// max_symbols (or, for TDT, a jump) ended that row. There are outer_iters + inner_iters joint
/// calls and outer_iters + 1 predictor calls.
class LabelLooping : public GreedySearch<LabelLoopingOptions> {
 public:
  using GreedySearch::GreedySearch;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Counters counters() const override;

 private:
  struct Rows;  // the search state of a batch
  struct Found;
  bool takes_biases() const override { return !script_; }
  Counters counts() const override;
  void reset_counts() override;
  Hypotheses search(const EncodedBatch& batch, Loops& loops) override;
  Hypotheses search_piece(const EncodedBatch& batch, Loops& loops, RowState& state) override {
    return search_rows(batch, loops, &state);
  }
  /// Searches a batch. Unless `piece` is null, it goes on from that state and replaces it.
  Hypotheses search_rows(const EncodedBatch& batch, Loops& loops, RowState* piece);
  Hypotheses run_script(const EncodedBatch& batch);
  void evaluate_joint(Rows& rows, Found& found, bool first);
  void step(Rows& rows, const Found& next);
  Decision decide_window(const Rows& rows, at::Tensor& skipped);

  std::optional<Transducer> transducer_;
  GreedyLm lm_;
  std::optional<LabelLoopingScript> script_;  // "loop": "script"
  NeededRows needed_;
  int64_t joint_calls_ = 0, joint_rows_ = 0, pred_calls_ = 0, pred_rows_ = 0;
  int64_t outer_ = 0, inner_ = 0;
};

}  // namespace rtfx
