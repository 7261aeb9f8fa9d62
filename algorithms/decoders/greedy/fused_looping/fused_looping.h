// Exact greedy search of RNN-T, TDT and multi-blank RNN-T in CUDA kernels of its own, for GPUs of
// compute capability 8.0 and higher. The rows of a batch move on their own. In each step every
// unfinished row evaluates a window of its next frames (blank search window, WIND, arXiv
// 2505.13765), and either finds its next token or passes them. Rows that found a token then update
// the prediction network. A step is
//
//   joint    best of W_o act(E[b, t .. t + window] + g_b) + b_o, without writing the logits
//   advance  tokens, times; which rows go on
//   predict  LSTM layers and joint.pred for the rows with a token (or a table look-up, stateless)
//
// In a CUDA graph a step costs 3 kernels for a stateless prediction network, and 4 to 7 for 1 to 4
// LSTM layers. Each kernel is set up while the one before runs. In one persistent kernel, which
// keeps the weights in shared memory, a step costs one grid barrier fewer than it costs kernels in
// a graph. The persistent kernel, or a kernel at the start of the graph, also projects the
// encoder's frames (joint.enc). prepare() computes the prediction for the start symbol once. A
// batch is therefore one launch.
//
// Values are rounded to the model's dtype where LibTorch's operators round. So results differ from
// those of label_looping only by the order of sums, with two exceptions. In fp32, each product is
// the sum of three TF32 products (tile.cuh). With a layer norm over several labels, the norm's
// output is not rounded to the dtype.
//
// A language model, boosted phrases and forbidden tokens (DeviceBias) act as in greedy_fusion.h.
// When a row has a new token, their bonus for each token of the vocabulary is written to memory,
// beside the update of the prediction network (bonuses.cuh). The joint phase adds it when it looks
// for the best token (row_bias_view.h, row_lm_view.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/biasing/biased_decoder.h"
#include "algorithms/shared/biasing/greedy_fusion.h"
#include "algorithms/streams.h"

namespace rtfx {

struct FusedLoopingOptions {
  std::string loop = "persistent";  // "persistent" (one kernel), "graph" (a CUDA graph), "host"
  int64_t window = 8;               // most frames per row and step
  int64_t frames_per_step = 160;    // over all rows, at least 3 (or `window`) per row
  int64_t max_symbols = 10;         // tokens per frame
  std::optional<LmOptions> lm;      // language model, see GreedyFusion
  std::optional<PhraseBoostOptions> boost;  // phrases, see DeviceBias
  std::vector<std::string> allowed;         // characters, see allowed_tokens()
  double blank_penalty = 0;                 // subtracted from blank's logit, see blank_penalty.h
  std::optional<double> skip_blank;         // threshold, see blank_skipping.h

  static const OptionTable<FusedLoopingOptions>& table();
};

/// decode() does not wait for the device, except with "loop": "host", where it waits once per step
/// and once at the start. counters() waits. Scores are sums of logits and of the bonuses of
/// language model and phrases. For each token of the vocabulary, a row's working memory has 16
/// bytes more with phrases or forbidden tokens, and 8 more with a language model. Batches share
/// working memory, which grows to that of the largest batch, so they must be decoded on one stream.
class FusedLooping : public BiasedDecoder<FusedLoopingOptions> {
 public:
  explicit FusedLooping(Options options);
  ~FusedLooping() override;

  Description describe() const override;
  /// Throws UserError without a GPU of compute capability 8.0 or higher, for models that the
  /// kernels cannot run, and for batches of too many rows. The persistent form needs 48 bytes of
  /// shared memory for each row, so an H200 has room for about 3,750. If `limits` does not give the
  /// number of rows, decode() throws the same error. If the driver is too old for "loop": "graph",
  /// available_loop() says so, and the form is "host".
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  Counters counters() const override;
  /// Streams run in the same kernels, and a piece is one launch. Streams::project() returns the
  /// encoder's frames unchanged, because the kernels project them.
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override;

 private:
  struct Prepared;
  /// Searches a batch. Unless `piece` is null, it holds the state of streams, which is read and
  /// written: BiasView::carried, Search::carried_state, Search::carried_rows and, with a language
  /// model, LmView::carried.
  Hypotheses search(const EncodedBatch& batch, RowState* piece);

  std::unique_ptr<Prepared> prepared_;
  GreedyLm lm_;
  HostReads host_;
};

}  // namespace rtfx
