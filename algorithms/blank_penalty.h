// The blank penalty: a number that a search subtracts from the logit of blank, before it compares
// labels and before any (log-)softmax. It makes tokens more likely, so fewer of them are missing
// and more are wrongly inserted.
//
//   z_blank := z_blank - penalty
//
// Icefall has this rule in all its transducer searches (`logits[:, 0] -= blank_penalty` in
// egs/librispeech/ASR/pruned_transducer_stateless2/beam_search.py), and sherpa-onnx follows it
// (`blank_penalty` of its transducer decoders). NeMo's greedy and beam searches have no such
// option. The rule is about logits and not about log-probabilities, so that the probabilities of a
// frame still sum to 1: scores and confidences are those of the penalised distribution.
//
// A logit is W h + b, so the penalty is subtracted from b once, in a copy of the model's last layer
// that the decoder is prepared with. Searches therefore do not know the penalty, and take no longer
// with it. All forms of a search, streams included, agree with each other as they do without a
// penalty. The sum b - penalty is rounded to the model's dtype. Where a model has several blanks,
// each is penalised.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "algorithms/decoder.h"
#include "base/options.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// The largest penalty. Far smaller penalties already suppress every blank, and fp16 can hold this
/// one.
inline constexpr double kMaxBlankPenalty = 1e4;

/// Returns the field "blank_penalty" of a decoder's options. The penalty is 0 by default.
template <class Options>
OptionField<Options> blank_penalty_option(double Options::*member) {
  return option("blank_penalty", member,
                "This value is subtracted from the logit of blank, which gives fewer deletions and "
                "more insertions.",
                0, kMaxBlankPenalty);
}

/// Returns the penalty among the resolved options of a decoder of rtfx, or 0 if there is none.
double blank_penalty_of(const nlohmann::json& options);

/// Returns the decoder's penalty. It is 0 for a foreign decoder, whose option of that name may mean
/// something else.
double blank_penalty_of(const Decoder& decoder);

/// Returns the bias [N] of a head's last layer after the penalty was subtracted from its outputs in
/// [first_blank, blanks_end). The dtype stays. Returns `bias` itself if the penalty is 0.
at::Tensor with_blank_penalty(const at::Tensor& bias, int64_t first_blank, int64_t blanks_end,
                              double penalty);

/// Returns a model whose heads give penalised logits, for decoders to prepare with. It shares all
/// weights except the biases of the last layers, and has no encoder and no features. Returns
/// `model` itself if the penalty is 0.
std::shared_ptr<const AcousticModel> with_blank_penalty(std::shared_ptr<const AcousticModel> model,
                                                        double penalty);

}  // namespace rtfx
