// Greedy CTC decoding (Graves et al. 2006). It takes the best label of every frame, and leaves out
// repetitions and blanks.
//
//   k_t = argmax_k p(k | t);  result = k_t where k_t != blank and (t = 0 or k_t != k_{t-1})
//
// With a language model (GreedyFusion), the search goes frame by frame. Where k_t is neither blank
// nor k_{t-1}, it becomes the best token other than k_{t-1}. This is the one with the largest log
// p(k | t) + alpha * log p_lm(k), given the result so far. The acoustic model decides which frames
// are blank. As in NeMo, k_{t-1} is the label that the search chose. If the language model has
// replaced the first label of a run, the next frame of the run begins another token. So a run of A
// may become B A.
#pragma once

#include <optional>
#include <string>

#include "algorithms/decoders/greedy/ctc_greedy/device_collapse.h"
#include "algorithms/shared/batched/batched_search.h"
#include "algorithms/shared/biasing/greedy_fusion.h"

namespace rtfx {

struct CtcGreedyOptions {
  std::string loop = "host";                // "host", "replay", "graph": see loop_driver.h
  std::optional<LmOptions> lm;              // language model, see GreedyFusion
  std::optional<PhraseBoostOptions> boost;  // phrases, see GreedyFusion
  std::vector<std::string> allowed;         // characters, see allowed_tokens()
  double blank_penalty = 0;                 // subtracted from blank's logit, see blank_penalty.h

  static const OptionTable<CtcGreedyOptions>& table();
};

/// The frame of a token is the first of its run. The score is the sum of the label's
/// log-probability over all frames, blanks included, with the language model's part. Ties go to the
/// lowest token id. The decoder never waits for the device, except once per frame with "loop":
/// "replay". With a language model, or phrases of any row, each frame takes some tensor operations.
/// Without them, a batch takes the product of the head. After it comes one kernel on a GPU
/// (DeviceCollapse), or some tensor operations on a CPU. A recorded search goes frame by frame from
/// the first batch with phrases on.
///
/// On a GPU and without a language model, the kernel computes the score of each row without
/// phrases. So phrases of other rows change no bit of it.
class CtcGreedy : public GreedySearch<CtcGreedyOptions> {
 public:
  using GreedySearch::GreedySearch;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;

  /// Returns the best label of each frame, collapsed with LibTorch's operators. `logits` is [B, T',
  /// V+1] with blank last, and `lengths` is [B] int64.
  static Hypotheses collapse(const at::Tensor& logits, const at::Tensor& lengths);

 private:
  struct Rows;  // the search state of a batch
  Hypotheses search(const EncodedBatch& batch, Loops& loops) override;
  /// Searches one more piece of each row. Scores of streams are sums of log-probabilities that are
  /// rounded to 2^-32, so that the order of the sum does not matter.
  Hypotheses search_piece(const EncodedBatch& batch, Loops& loops, RowState& state) override;

  std::shared_ptr<const AcousticModel> model_;
  GreedyLm lm_;
  // Streams have an object of their own: with more rows they would move the counters, whose address
  // a recorded search keeps.
  DeviceCollapse collapse_batch_, collapse_piece_;
};

}  // namespace rtfx
