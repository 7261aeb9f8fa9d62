// How sure a distribution over labels is, as one number: Laptev, Ginsburg, "Fast Entropy-Based
// Methods of Word-Level Confidence Estimation for End-to-End Automatic Speech Recognition" (2023),
// section 2, as NeMo computes it. Of a uniform distribution it is 0, of a certain one 1.
//
// p over V labels, blank among them; a = alpha; H at its largest is that of the uniform one.
//
//   max_prob       (max p^a V^a - 1) / (V^a - 1)
//   gibbs          H = -sum p^a ln p                    largest: V^(1-a) ln V
//   tsallis        H = (1 - sum p^a) / (a - 1)          largest: (V^(1-a) - 1) / (1 - a)
//     lin          1 - H / Hmax
//     exp          (e^-H - e^-Hmax) / (1 - e^-Hmax);  gibbs with a != 1: e^(-a H), e^(-a Hmax)
//
// With a = 1 both entropies are Shannon's.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

#include "base/options.h"

namespace rtfx {

struct ConfidenceOptions {
  std::string method = "entropy";  // or "max_prob"
  std::string entropy = "gibbs";
  std::string norm = "exp";
  double alpha = 1;
  std::string aggregation = "mean";  // of tokens to words, of words to the utterance
  bool exclude_blank = true;
};

/// The defaults told right from wrong best on the stand-ins (reports/confidence). NeMo's: entropy,
/// tsallis, exp, 0.33, min.
const OptionTable<ConfidenceOptions>& confidence_options();

/// logprobs [..., V], float32, natural logarithms -> [...]. Does not synchronise.
at::Tensor confidence_of(const at::Tensor& logprobs, const ConfidenceOptions& options);

/// mean, min, max or prod of `values`; NaN where there are none.
double aggregate(std::span<const double> values, const std::string& aggregation);

}  // namespace rtfx
