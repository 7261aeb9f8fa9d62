// Greedy CTC decoding (Graves et al. 2006): the best label of every frame, collapsed.
//
//   k_t = argmax_k p(k | t);  result = k_t where k_t != blank and (t = 0 or k_t != k_{t-1})
//
// With a language model (GreedyFusion), the search goes frame by frame. Where k_t is neither blank
// nor k_{t-1}, it becomes the best token other than k_{t-1}. This is the one with the largest log
// p(k | t) + alpha * log p_lm(k), given the result so far. The acoustic model decides where tokens
// are, and which frames repeat them.
#pragma once

#include <optional>
#include <string>

#include "algorithms/decoders/greedy/ctc_greedy/device_collapse.h"
#include "algorithms/shared/batched/batched_search.h"
#include "algorithms/shared/biasing/greedy_fusion.h"

namespace rtfx {

struct CtcGreedyOptions {
  std::string loop = "host";             // "host", "replay", "graph": see LoopForm
  std::optional<LmOptions> lm;           // language model, see GreedyFusion
  std::optional<BoostingOptions> boost;  // phrases, likewise
  std::vector<std::string> allowed;      // characters, see allowed_tokens()
  double blank_penalty = 0;              // of the logits, see blank_penalty.h

  static const OptionTable<CtcGreedyOptions>& table();
};

/// Frame of a token: the first of its run. Score: sum over all frames (blanks included) of the
/// label's log-probability, the language model's part included. Ties go to the lowest token id.
/// Never waits for the device, except with "loop": "replay", once per frame. With a language model,
/// or phrases of any row, each frame takes some tensor operations. Without them, a batch takes the
/// head's product and, on a GPU, one kernel (DeviceCollapse); on a CPU, some tensor operations. A
/// recorded search goes frame by frame from the first batch with phrases on.
///
/// On a GPU, the kernel makes the score of each row without phrases, if there is no language model.
/// So phrases of other rows change none of its bits.
class CtcGreedy : public GreedySearch<CtcGreedyOptions> {
 public:
  using GreedySearch::GreedySearch;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;

  /// The best label of each frame, collapsed by LibTorch's operators. logits [B, T', V+1] (blank
  /// last), lengths [B] int64.
  static Hypotheses collapse(const at::Tensor& logits, const at::Tensor& lengths);

 private:
  struct Rows;  // the search state of a batch
  Hypotheses search(const EncodedBatch& batch, Loops& loops) override;
  /// Scores of streams are sums of log-probabilities that are rounded to 2^-32, so that the order
  /// of the sum does not matter.
  Hypotheses search_piece(const EncodedBatch& batch, Loops& loops, RowState& state) override;

  std::shared_ptr<const AcousticModel> model_;
  GreedyLm lm_;
  // A recorded search keeps the address of the counters, which streams of more rows would move.
  DeviceCollapse collapse_batch_, collapse_piece_;
};

}  // namespace rtfx
