// This is the adaptive expansion search of RNN-T and TDT, one utterance at a time. The algorithm is
// the modified form of Kim, Lu, Gong, Li, "Accelerating RNN Transducer Inference via Adaptive
// Expansion Search", IEEE SPL 2020. This search is the plain reference of aes_pp. It maximises,
// over texts y, a part of
//
//   P(y) = sum over alignments a of y of prod_i p(a_i | t_i, y_1 .. y_{u_i})
//
// The part holds alignments a with at most num_steps tokens at a frame. It also holds some with up
// to prefix_alpha more there, since step 2 goes on from a text that step 1 made. The search goes
// frame by frame. At frame t:
//
//   1. Prefix search: P(y) += P(x) p(y_{|x|+1} .. y_|y| | t, x), for every hypothesis x that is a
//      proper prefix of hypothesis y and at most prefix_alpha tokens shorter.
//   2. num_steps times: each hypothesis is expanded by its beam_size + expansion_beta best labels.
//      Labels that are more than expansion_gamma (in ln p) worse than its best one are left out.
//      Blank ends the frame. A token makes a text that is expanded next, unless step 1 had it.
//   3. Texts that are left to expand after the last step get a blank.
//   4. The beam_size best hypotheses are kept.
//
// TDT (Xu et al. 2023): labels are pairs of label and duration. Only hypotheses whose frame is t
// take part, and only tokens of duration 0 are expanded at t. Prefix search adds only such tokens.
// Equal texts at equal frames are merged. The blank of step 3 has the likeliest duration, or the
// smallest one above 0 if that is 0. A blank of step 2 with duration 0 moves one frame.
//
// With a language model, tokens get alpha * ln p(token) after the choice of step 2, and blank gets
// nothing (early pruning, no_score). If all hypotheses of the beam have the probability 0 then,
// those that came to the frame get blanks.
#pragma once

#include <memory>
#include <optional>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/nbest_risk.h"
#include "algorithms/shared/beams/host_beam.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

struct AesOptions {
  int64_t beam_size = 4;
  int64_t num_steps = 2;         // tokens per frame
  int64_t prefix_alpha = 1;      // most tokens that prefix search adds to a text
  int64_t expansion_beta = 2;    // labels of a hypothesis beyond beam_size
  double expansion_gamma = 2.3;  // largest distance to the best label, in ln p
  bool score_norm = true;        // rank by score / (tokens + 1)
  int64_t nbest = 1;
  std::optional<MbrOptions> mbr;
  double temperature = 1;    // logits are divided by it
  double blank_penalty = 0;  // subtracted from blank's logit, see blank_penalty.h
  std::optional<LmOptions> lm;

  static const OptionTable<AesOptions>& table();
};

/// Waits for the device up to num_steps + 2 times per frame, once more where the language model
/// rules out all hypotheses, and once at the end. If neither a blank nor a new text survives at a
/// frame, the hypotheses that were expanded last get blanks. With wide enough bounds, the score of
/// a text of fewer than num_steps tokens is ln P(text): every alignment counts once. TDT may return
/// a text several times, once for each frame beyond the end that its alignments jump to. The
/// probabilities of these entries then sum to P(text), and they are ranked one by one.
class Aes : public DecoderBase<AesOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  Counters counters() const override;

 private:
  class Search;  // of one utterance

  std::optional<Transducer> transducer_;
  std::optional<NgramLm> lm_;  // on the CPU
  HostReads host_;
  int64_t joint_calls_ = 0, pred_calls_ = 0;
};

}  // namespace rtfx
