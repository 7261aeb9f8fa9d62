// Adaptive expansion search (Kim, Lu, Gong, Li, "Accelerating RNN Transducer Inference via Adaptive
// Expansion Search", IEEE SPL 2020, in its modified form), one utterance at a time: the plain
// reference of aes_pp.
//
// Frame by frame; a hypothesis may emit up to num_steps tokens at a frame. For frame t:
//
//   1. prefix search: P(y) += P(x) p(y_{|x|+1} .. y_|y| | t, x), for every hypothesis x that is a
//      proper prefix of hypothesis y and at most prefix_alpha tokens shorter
//   2. num_steps times: each hypothesis takes its beam_size + expansion_beta best labels, without
//      those that are more than expansion_gamma (in ln p) worse than its best. Blank ends the
//      frame; a token makes a text that is expanded next, unless step 1 had that text already
//   3. what still expands after the last step gets a blank
//   4. keep the beam_size best
//
// TDT (Xu et al. 2023): labels are pairs of label and duration; only hypotheses whose frame is t
// take part, and only tokens of duration 0 are expanded at t. Prefix search adds such tokens alone.
// Equal texts at equal frames become one. The blank of step 3 takes the likeliest duration, the
// smallest other one where that is 0; a blank of step 2 with duration 0 moves one frame.
//
// With a language model, tokens get alpha * ln p(token) after the choice of step 2, blank nothing
// (early pruning, no_score).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/beams/host_beam.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

/// Waits for the device up to num_steps + 2 times per frame, and once at the end. A search that no
/// blank and no new text survives at a frame gives blanks to the hypotheses that it last expanded.
/// With wide enough bounds the score of a text of fewer than num_steps tokens is ln P(text): every
/// alignment counts once.
class Aes : public Decoder {
 public:
  struct Options {
    int64_t beam_size = 4;
    int64_t num_steps = 2;         // tokens per frame
    int64_t prefix_alpha = 1;      // tokens that prefix search adds
    int64_t expansion_beta = 2;    // labels of a hypothesis beyond beam_size
    double expansion_gamma = 2.3;  // natural logarithm
    bool score_norm = true;        // rank by score / (tokens + 1)
    int64_t nbest = 1;
    double temperature = 1;  // logits are divided by it
    std::optional<LmOptions> lm;
  };

  explicit Aes(Options options) : options_(std::move(options)) {}

  Description describe() const override;
  nlohmann::json options() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  Counters counters() const override;

 private:
  class Search;  // of one utterance

  Options options_;
  std::optional<Transducer> transducer_;
  std::optional<NgramLm> lm_;  // on the CPU
  HostReads host_;
  int64_t joint_calls_ = 0, pred_calls_ = 0;
};

}  // namespace rtfx
