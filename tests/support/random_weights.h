// Random weights of models, for tests and for benchmarks.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "models/checkpoint/checkpoint.h"

namespace rtfx::test {

/// Returns random weights for a model of these settings: normal with deviation 1/sqrt(fan-in), with
/// unit norms, and zeros in the embedding's blank row.
inline StateDict random_state_dict(const ModelConfig& config, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  StateDict weights;
  for (const auto& [name, shape] : expected_tensors(config)) {
    const bool norm = name.find("norm") != std::string::npos;
    if (name.ends_with("running_var") || (norm && name.ends_with(".weight"))) {
      weights[name] = at::ones(shape);
    } else if (shape.size() == 1) {
      weights[name] = at::zeros(shape);
    } else {
      const double fan_in = static_cast<double>(c10::multiply_integers(shape)) / shape[0];
      const double deviation =
          name.find("embed") != std::string::npos ? 1.0 : 1.0 / std::sqrt(fan_in);
      weights[name] = at::randn(shape, generator) * deviation;
      if (name.find("embed") != std::string::npos) weights[name][-1].zero_();
    }
  }
  return weights;
}

}  // namespace rtfx::test
