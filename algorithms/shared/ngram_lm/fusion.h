// Shallow fusion: what a language model adds to the scores of a search. For a joint's
// log-probabilities lp (tokens k, blank b, p_b = exp lp_b) and s_k = alpha * ln p_lm(k) + beta:
//
//   blank_scoring      token k                                   blank
//   no_score           lp_k + s_k                                lp_b
//   lm_weighted_full   lp_k + alpha * ln(1 - p_b) + s_k          (1 + alpha) * lp_b
//
// (eqs. 2 and 3 of Grigoryan et al., "Pushing the Limits of Beam Search Decoding for
// Transducer-based ASR Models", 2025.) Without the second form a larger alpha makes tokens worse
// and blanks relatively better. `late` pruning takes the best labels by fused scores; `early` takes
// them by lp and fuses those.
//
// Greedy searches fuse otherwise: the acoustic model alone decides between blank and token
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

inline constexpr double kBlankEps = 1e-2;  // least 1 - p(blank), where nobody says another

/// The value of a decoder's option "lm", an object.
struct LmOptions {
  std::filesystem::path path;  // ARPA file (plain or gzip) or binary copy
  double alpha = 0.3;          // weight of the model; 0: as without one, bit for bit, if beta is 0
  double beta = 0;             // bonus of each token
  std::string blank_scoring = "lm_weighted_full";  // or "no_score"
  std::string pruning = "late";                    // or "early"
  double blank_eps = kBlankEps;  // 1 - p_b counts as no less than this in ln(1 - p_b)
  bool normalize_unk = true;     // see LoadLmOptions, and the two below too
  bool cache = false;
  int64_t memory_limit_mib = 0;
};

/// Fields of LmOptions: all for searches with a beam; those for greedy searches, where beta and the
/// treatment of blank can change nothing. To be used as
///   option("lm", &Options::lm, "language model, fused with ...", beam_lm_options())
/// with a member `std::optional<LmOptions> lm`.
const OptionTable<LmOptions>& beam_lm_options();
const OptionTable<LmOptions>& greedy_lm_options();

/// The model that `options` name, on the device of `model` and for its vocabulary. Each file is
/// loaded once; all decoders share it. Throws UserError.
std::shared_ptr<const NgramLm> load_lm(const LmOptions& options, const AcousticModel& model);

/// All labels. logprobs [..., V+1] (blank last; natural logarithms), lm [..., V] as
/// NgramLm::scores() gives them -> [..., V+1] float32.
at::Tensor fuse(const at::Tensor& logprobs, const at::Tensor& lm, const LmOptions& options);

/// What lm_weighted_full does to blank and tokens, for a weight of each row in place of `alpha`, on
/// top of what else was added to them: fused [..., V+1] with w ln(1 - p_b) more for each token and
/// w lp_b for blank. weights: of the dimensions before V+1, w.
at::Tensor rescale_blank(const at::Tensor& fused, const at::Tensor& logprobs,
                         const at::Tensor& weights, double blank_eps);

/// Chosen labels, for early pruning: fuse(...).gather(-1, labels) but for rounding. logprobs
/// [..., V+1], labels [..., K] int64, lm [..., K] as NgramLm::lookup() gives them (what it holds
/// for blank does not matter) -> [..., K] float32.
at::Tensor fuse_chosen(const at::Tensor& logprobs, const at::Tensor& labels, const at::Tensor& lm,
                       const LmOptions& options);

}  // namespace rtfx
