// Options that several decoders have: their texts in `rtfx list`, and the whole of `max_symbols`.
// Texts for the options of one decoder stand in its own table.
#pragma once

#include <string>
#include <utility>

#include "base/options.h"
#include "models/checkpoint/config.h"

namespace rtfx {

inline constexpr char kTokensPerFrameHelp[] =
    "Largest number of tokens that can be emitted at one encoder frame.";

/// Returns the field "max_symbols" of a decoder's options. By default it has the model's value.
template <class Options>
OptionField<Options> max_symbols_option(int64_t Options::*member,
                                        std::string help = kTokensPerFrameHelp) {
  return option("max_symbols", member, std::move(help), 1, kMostSymbols)
      .by_default("the model's value");
}

inline constexpr char kScoreKindHelp[] =
    "Kind of score. The score of a hypothesis is the sum over its tokens of their logits (`logit`) "
    "or of their log-probabilities (`logprob`).";

inline constexpr char kGreedyLmHelp[] =
    "N-gram language model over tokens. It takes part in the choice among tokens, but not in the "
    "choice between token and blank.";

inline constexpr char kBoostHelp[] =
    "Contextual biasing (phrase boosting): tokens of these phrases get a higher score.";

inline constexpr char kBeamSizeHelp[] = "Number of hypotheses that are kept for each utterance.";
inline constexpr char kTransducerBeamSizeHelp[] =
    "Number of hypotheses that are kept for each utterance. A value above the number of the "
    "model's tokens is an error.";

inline constexpr char kScoreNormHelp[] =
    "Rank the final hypotheses by score / (number of tokens + 1). `false`: by score.";

inline constexpr char kNbestHelp[] =
    "Number of hypotheses to return for each utterance, but not more than `beam_size`. A value "
    "above 1 gives an n-best list.";

inline constexpr char kTemperatureHelp[] =
    "Logits are divided by this value before the softmax. A value above 1 makes the distribution "
    "flatter.";

/// The option has the choices "host" and "graph".
inline constexpr char kLoopHelp[] =
    "Execution of the search loop. `host`: the CPU launches each step and waits for the GPU. "
    "`graph`: "
    "the GPU runs the loop as one CUDA graph.";

/// These options belong to a fusion with an option `alpha` (shared/ngram_lm/fusion.h).
inline constexpr char kBlankScoringHelp[] =
    "Score of blank in the fusion. `no_score`: unchanged. `lm_weighted_full`: ln p(blank) counts 1 "
    "+ `alpha` times, and tokens get `alpha` times ln(1 - p(blank)).";
inline constexpr char kBlankEpsHelp[] =
    "Lower bound of 1 - p(blank) in the logarithm of `lm_weighted_full`.";

inline constexpr char kInsertionBonusHelp[] =
    "Insertion bonus, which is added to the score of each token.";

}  // namespace rtfx
