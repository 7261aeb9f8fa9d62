#include "algorithms/shared/confidence/measure.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace rtfx {
namespace {

bool is_shannon(double alpha) { return alpha == 1; }

/// H of [..., V]; ln 0 = -inf counts as a probability of 0.
at::Tensor entropy_of(const at::Tensor& logprobs, const ConfidenceOptions& options) {
  const double alpha = options.alpha;
  if (options.entropy == "gibbs" || is_shannon(alpha)) {
    const at::Tensor terms = (logprobs * alpha).exp() * logprobs.clamp_min(-1e30);
    return terms.sum(-1).neg();
  }
  return ((logprobs * alpha).exp().sum(-1) - 1) / (1 - alpha);
}

double largest_entropy(double labels, const ConfidenceOptions& options) {
  const double alpha = options.alpha;
  if (is_shannon(alpha)) return std::log(labels);
  if (options.entropy == "gibbs") return std::pow(labels, 1 - alpha) * std::log(labels);
  return (std::pow(labels, 1 - alpha) - 1) / (1 - alpha);
}

}  // namespace

const OptionTable<ConfidenceOptions>& confidence_options() {
  using O = ConfidenceOptions;
  static const OptionTable<O> table{{
      option("method", &O::method, "by the largest probability, or by the entropy",
             {"entropy", "max_prob"}),
      option("entropy", &O::entropy, "which entropy", {"gibbs", "tsallis"}),
      option("norm", &O::norm, "how an entropy becomes a number from 0 to 1", {"exp", "lin"}),
      option("alpha", &O::alpha, "exponent of the probabilities", 0.01, 10.0),
      option("aggregation", &O::aggregation, "of tokens to a word, of words to the utterance",
             {"mean", "min", "max", "prod"}),
      option("exclude_blank", &O::exclude_blank,
             "false: frames of blank count for the token before them"),
  }};
  return table;
}

at::Tensor confidence_of(const at::Tensor& logprobs, const ConfidenceOptions& options) {
  const auto labels = static_cast<double>(logprobs.size(-1));
  if (options.method == "max_prob") {
    const double most = std::pow(labels, options.alpha);
    return ((logprobs.amax(-1) * options.alpha).exp() * most - 1) / (most - 1);
  }
  const at::Tensor entropy = entropy_of(logprobs, options);
  const double largest = largest_entropy(labels, options);
  if (options.norm == "lin") return 1 - entropy / largest;
  const double scale = options.entropy == "gibbs" ? options.alpha : 1;
  const double least = std::exp(-scale * largest);
  return ((entropy * -scale).exp() - least) / (1 - least);
}

double aggregate(std::span<const double> values, const std::string& aggregation) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (aggregation == "min") return std::ranges::min(values);
  if (aggregation == "max") return std::ranges::max(values);
  if (aggregation == "prod")
    return std::accumulate(values.begin(), values.end(), 1.0, std::multiplies<>());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace rtfx
