// Frame-looping greedy search: the conventional algorithm and the baseline of every comparison.
//
//   for each frame t:  repeat  k = argmax joint(E_t, predictor(y));  emit k unless blank
//                      until k is blank or max_symbols tokens were emitted at t
//
// Batched RNN-T follows Algorithm 1 of "Speed of Light Exact Greedy Decoding" (Galvez et al. 2024)
// and Algorithm 2 of "Label-Looping" (Bataev et al. 2024): all rows share t. In TDT (Xu et al.
// 2023), the predicted duration replaces the step to t + 1, so every row has a frame of its own. In
// multi-blank RNN-T (Xu et al., arXiv 2211.03541), so does the duration of a big blank.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/shared/batched/batched_search.h"
#include "algorithms/shared/biasing/greedy_fusion.h"
#include "algorithms/shared/transducer/needed_rows.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

struct FrameLoopingOptions {
  bool batched = true;                   // false: one utterance after the other
  bool cache_predictor = false;          // keep the predictor's output until any row has a token
  bool project_encoder_once = false;     // joint.enc once per batch
  bool project_prediction_once = false;  // joint.pred once per prediction call
  int64_t max_symbols = 10;              // tokens per frame
  std::string score_kind = "logit";
  /// "none", or "nemo" for TDT as in NeMo until its pull request 16095: the search skips a frame
  /// whenever max_symbols is reached, also after a duration above 0.
  std::string compatibility = "none";
  std::string host_reads = "flag";          // or "rows", as in the published baseline: see below
  bool count_rows = false;                  // count the rows that were needed, see NeededRows
  std::string loop = "host";                // "host", "replay", "graph": see loop_driver.h
  std::optional<LmOptions> lm;              // language model, see GreedyFusion
  std::optional<PhraseBoostOptions> boost;  // phrases, see GreedyFusion
  std::vector<std::string> allowed;         // characters, see allowed_tokens()
  double blank_penalty = 0;                 // subtracted from blank's logit, see blank_penalty.h
  std::optional<double> skip_blank;         // threshold, see blank_skipping.h

  static const OptionTable<FrameLoopingOptions>& table();
};

/// decode() waits for the device once per evaluation, which is one joint call for all rows. With
/// "cache_predictor", TDT and multi-blank RNN-T wait once more, to learn whether any row has a
/// token. With "loop": "graph" decode() does not wait, and counts nothing.
///
/// With "host_reads": "rows" hypotheses grow on the host. decode() then also waits once for each
/// row and evaluation, to learn whether the row emits. RNN-T does so only if any row emits, and so
/// do the others with "cache_predictor". It waits twice for each token, for the token and its
/// score. TDT waits four times, also for frame and duration. Multi-blank RNN-T waits three times,
/// also for the frame. This is the cost of NeMo's loop over rows in Python, which both papers
/// compare with.
///
/// joint_calls of RNN-T is the sum over frames t of min(max_symbols, 1 + most tokens that any row
/// emits at t).
class FrameLooping : public GreedySearch<FrameLoopingOptions> {
 public:
  using GreedySearch::GreedySearch;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;

 private:
  struct Rows;  // the search state of a batch
  bool takes_biases() const override { return options_.batched; }
  Counters counts() const override;
  void reset_counts() override;
  Hypotheses search(const EncodedBatch& batch, Loops& loops) override;
  /// Searches rows as a batch, whatever the options "batched" and "host_reads" say.
  Hypotheses search_piece(const EncodedBatch& batch, Loops& loops, RowState& state) override;
  void loop_rnnt(Rows& rows, int64_t longest);
  void loop_rnnt_recorded(Rows& rows, Loops& loops);
  /// Searches TDT and multi-blank RNN-T, where every row has a frame of its own.
  void loop_skipping(Rows& rows, Loops& loops);
  /// Makes one joint call for all rows. `needed` [B] bool marks the rows whose decision the search
  /// uses.
  Decision evaluate(Rows& rows, const at::Tensor& encoded_rows, const at::Tensor& needed);
  void emit(Rows& rows, const at::Tensor& mask, const Decision& decision, const at::Tensor& frames);

  std::optional<Transducer> transducer_;
  GreedyLm lm_;
  NeededRows needed_;
  int64_t frames_visited_ = 0, joint_calls_ = 0, joint_rows_ = 0;
  int64_t pred_calls_ = 0, pred_rows_ = 0;
};

}  // namespace rtfx
