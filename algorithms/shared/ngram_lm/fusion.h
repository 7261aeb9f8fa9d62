// Shallow fusion: how a language model changes the scores of a search. A joint gives the
// log-probabilities lp of tokens k and blank b, with p_b = exp lp_b. The language model gives
// s_k = alpha * ln p_lm(k) + beta. The fused scores are:
//
//   blank_scoring      token k                                   blank
//   no_score           lp_k + s_k                                lp_b
//   lm_weighted_full   lp_k + alpha * ln(1 - p_b) + s_k          (1 + alpha) * lp_b
//
// These are eqs. 2 and 3 of Grigoryan et al., "Pushing the Limits of Beam Search Decoding for
// Transducer-based ASR Models", 2025. With no_score, a larger alpha makes tokens worse and blanks
// relatively better. `late` pruning chooses the best labels by fused scores. `early` pruning
// chooses them by lp and then fuses the chosen ones.
//
// Greedy searches fuse in another way: the acoustic model alone decides between blank and token
// (greedy_fusion.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "algorithms/shared/ngram_lm/ngram_lm.h"
#include "base/options.h"

namespace rtfx {

struct AcousticModel;

inline constexpr double kBlankEps = 1e-2;  // default lower bound of 1 - p(blank)

/// The value of a decoder's option "lm".
struct LmOptions {
  std::filesystem::path path;  // ARPA file (plain or gzip) or binary copy
  double alpha = 0.3;          // weight of the model; if it and beta are 0, results are unchanged
  double beta = 0;             // bonus of each token
  std::string blank_scoring = "lm_weighted_full";  // or "no_score"
  std::string pruning = "late";                    // or "early"
  double blank_eps = kBlankEps;                    // lower bound of 1 - p_b in ln(1 - p_b)
  bool normalize_unk = true;                       // this and the next two: see LoadLmOptions
  bool cache = false;
  int64_t memory_limit_mib = 0;
};

/// Returns the fields of LmOptions. Beam searches have all of them. Greedy searches lack beta and
/// the treatment of blank, which cannot change their result. A decoder with a member
/// `std::optional<LmOptions> lm` uses the table as
///   option("lm", &Options::lm, "language model, fused with ...", beam_lm_options())
const OptionTable<LmOptions>& beam_lm_options();
const OptionTable<LmOptions>& greedy_lm_options();

/// Returns whether the language model has no weight, so that results are those without it.
inline bool changes_nothing(const LmOptions& options) {
  return options.alpha == 0 && options.beta == 0;
}

/// Returns the language model that `options` name, on the device of `model` and for its vocabulary.
/// Each file is loaded once, and all decoders share it. So `cache` counts at the first request
/// only. Throws UserError.
std::shared_ptr<const NgramLm> load_lm(const LmOptions& options, const AcousticModel& model);

/// Fuses the scores of all labels: logprobs [..., V+1] (natural logarithms, blank last), lm [...,
/// V] from NgramLm::scores() -> [..., V+1] of score_dtype().
at::Tensor fuse(const at::Tensor& logprobs, const at::Tensor& lm, const LmOptions& options);

/// Rescales blank as lm_weighted_full does, with a weight w for each row in place of `alpha`. It
/// adds w ln(1 - p_b) to each token of `fused` [..., V+1] and w lp_b to blank. `weights` has the
/// dimensions before V+1.
at::Tensor rescale_blank(const at::Tensor& fused, const at::Tensor& logprobs,
                         const at::Tensor& weights, double blank_eps);

}  // namespace rtfx
