#include "algorithms/shared/ngram_lm/fusion.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "algorithms/option_help.h"
#include "algorithms/shared/ngram_lm/load_ngram_lm.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/score_dtype.h"

namespace rtfx {
namespace {

constexpr double kMaxWeight = 100;

std::vector<OptionField<LmOptions>> common_fields() {
  return {
      option("path", &LmOptions::path,
             "ARPA file of an n-gram model over token ids, plain or gzip, or the binary copy that "
             "`cache` made of one."),
      option("alpha", &LmOptions::alpha,
             "Language model weight, by which its log-probabilities are multiplied. 0: they have "
             "no effect.",
             0, kMaxWeight),
      option("normalize_unk", &LmOptions::normalize_unk,
             "Divide the probability of <unk> evenly among the tokens that the language model "
             "lacks. `false`: each of them gets all of it."),
      option("cache", &LmOptions::cache,
             "Keep a binary copy of the ARPA file at <path>.ngpulm, which loads faster. It is used "
             "while the ARPA file is the same. All decoders of a run share a file's model, so the "
             "value of the first one counts."),
      option("memory_limit_mib", &LmOptions::memory_limit_mib,
             "Refuse a language model that needs more memory than this, in MiB. 0: no limit.", 0,
             int64_t{1} << 20),
  };
}

/// The identity of a request: the file in its present state, and how it is loaded. Requests with
/// equal keys share a model.
using Key = std::tuple<std::string, std::filesystem::file_time_type, int64_t, bool, std::string>;

NgramLm to_device(const NgramLm& lm, at::Device device, const std::string& path) {
  try {
    return lm.to(device);
  } catch (const c10::OutOfMemoryError&) {
    throw UserError(path,
                    fmt::format("the language model needs {:.1f} MiB on {}, which are not free",
                                static_cast<double>(lm.bytes()) / (1 << 20), device.str()),
                    "prune it, or use smaller batches");
  }
}

at::Tensor widened(const at::Tensor& logprobs) {
  return logprobs.to(score_dtype(logprobs.scalar_type()));
}

/// Returns whether the model lacks some tokens and has no <unk>, so that these tokens are
/// impossible.
bool rules_out_tokens(const NgramLm& lm, int64_t vocabulary) {
  const NgramArrays& arrays = lm.arrays();
  const at::Tensor is_unknown = arrays.arc_to.narrow(0, 0, vocabulary) == 0;
  return arrays.arc_weight.narrow(0, 0, vocabulary)
      .isinf()
      .logical_and(is_unknown)
      .any()
      .item<bool>();
}

bool rescales_blank(const LmOptions& options) {
  return options.blank_scoring == "lm_weighted_full";
}

/// Returns ln(1 - p_b), [..., 1], without cancellation if p_b is near 1.
at::Tensor log_rest(const at::Tensor& blank_logprob, double blank_eps) {
  return blank_logprob.expm1().neg().log().clamp_min(std::log(blank_eps));
}

/// Returns the bonus of each token: lm [..., N], blank_logprob [..., 1] -> [..., N].
at::Tensor token_bonus(const at::Tensor& lm, const at::Tensor& blank_logprob,
                       const LmOptions& options) {
  const at::Tensor logprobs = lm.to(blank_logprob.scalar_type());
  // An unknown token may have ln p = -inf, and 0 * -inf would be NaN.
  at::Tensor bonus = options.alpha == 0 ? at::zeros_like(logprobs) : logprobs * options.alpha;
  bonus.add_(options.beta);
  if (rescales_blank(options))
    bonus.add_(log_rest(blank_logprob, options.blank_eps), options.alpha);
  return bonus;
}

at::Tensor fused_blank(const at::Tensor& blank_logprob, const LmOptions& options) {
  return rescales_blank(options) ? blank_logprob * (1 + options.alpha) : blank_logprob;
}

}  // namespace

const OptionTable<LmOptions>& greedy_lm_options() {
  static const OptionTable<LmOptions> table{common_fields()};
  return table;
}

const OptionTable<LmOptions>& beam_lm_options() {
  static const OptionTable<LmOptions> table = [] {
    OptionTable<LmOptions> all{common_fields()};
    all.fields.push_back(
        option("beta", &LmOptions::beta, kInsertionBonusHelp, -kMaxWeight, kMaxWeight));
    all.fields.push_back(option("blank_scoring", &LmOptions::blank_scoring, kBlankScoringHelp,
                                {"lm_weighted_full", "no_score"}));
    all.fields.push_back(
        option("pruning", &LmOptions::pruning,
               "Scores by which the labels of a hypothesis are chosen. `late`: fused scores. "
               "`early`: acoustic scores, so that only the chosen labels are fused.",
               {"late", "early"}));
    all.fields.push_back(
        option("blank_eps", &LmOptions::blank_eps,
               std::string(kBlankEpsHelp) +
                   " NeMo's bound is 0.01 in `malsd_batch` and 1e-6 in `maes_batch`.",
               1e-7, 1));
    return all;
  }();
  return table;
}

std::shared_ptr<const NgramLm> load_lm(const LmOptions& options, const AcousticModel& model) {
  static std::mutex mutex;
  // The map is never destroyed: memory of a GPU must not be freed while the process exits.
  static auto& loaded = *new std::map<Key, std::shared_ptr<const NgramLm>>;
  const std::lock_guard lock(mutex);
  const std::filesystem::path path = std::filesystem::absolute(options.path).lexically_normal();
  const int64_t vocabulary = model.config.vocabulary;
  const Key key = {path.string(), std::filesystem::last_write_time(path), vocabulary,
                   options.normalize_unk, model.device.str()};
  std::shared_ptr<const NgramLm>& lm = loaded[key];
  if (!lm) {
    const NgramLm read = load_ngram_lm(
        path, vocabulary, {options.normalize_unk, options.cache, options.memory_limit_mib << 20});
    const int64_t unknown = read.unknown_tokens();
    if (2 * unknown > vocabulary) {
      print_message(
          "rtfx: notice: {}: {} of the model's {} tokens are unknown to it; was it made "
          "with another tokenizer?\n",
          printable(path.string()), unknown, vocabulary);
    }
    if (rules_out_tokens(read, vocabulary)) {
      print_message(
          "rtfx: notice: {}: it has no <unk>, so that {} of the model's {} tokens, which it lacks, "
          "are impossible\n",
          printable(path.string()), unknown, vocabulary);
    }
    lm = std::make_shared<const NgramLm>(to_device(read, model.device, path.string()));
  }
  check_lm_size(path.string(), lm->arrays().arc_to.size(0), lm->arrays().context.size(0),
                options.memory_limit_mib << 20);
  return lm;
}

at::Tensor fuse(const at::Tensor& logprobs, const at::Tensor& lm, const LmOptions& options) {
  const at::Tensor acoustic = widened(logprobs);
  if (changes_nothing(options)) return acoustic;
  const int64_t blank = acoustic.size(-1) - 1;
  const at::Tensor blank_logprob = acoustic.narrow(-1, blank, 1);
  return at::cat({acoustic.narrow(-1, 0, blank) + token_bonus(lm, blank_logprob, options),
                  fused_blank(blank_logprob, options)},
                 -1);
}

at::Tensor rescale_blank(const at::Tensor& fused, const at::Tensor& logprobs,
                         const at::Tensor& weights, double blank_eps) {
  const int64_t blank = logprobs.size(-1) - 1;
  const at::Tensor blank_logprob = widened(logprobs.narrow(-1, blank, 1));
  const at::Tensor weight = weights.unsqueeze(-1);
  const at::Tensor bonus = weight * log_rest(blank_logprob, blank_eps);
  return at::cat(
      {fused.narrow(-1, 0, blank) + bonus, fused.narrow(-1, blank, 1) + weight * blank_logprob},
      -1);
}

}  // namespace rtfx
