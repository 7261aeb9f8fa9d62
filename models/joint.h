// The joint network: logits = W_o act(W_e e + b_e + W_p p + b_p) + b_o.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "models/checkpoint.h"

namespace rtfx {

class Joint {
 public:
  /// `durations`: number of duration columns after the blank (0 for RNN-T).
  Joint(const StateDict& weights, const std::string& activation, int64_t durations,
        at::Device device, at::ScalarType dtype);

  at::Tensor project_encoder(const at::Tensor& frames) const;     // [..., D] -> [..., H]
  at::Tensor project_prediction(const at::Tensor& output) const;  // [..., P] -> [..., H]

  /// Logits [..., V+1+D] of projected inputs (broadcast against each other).
  at::Tensor logits(const at::Tensor& encoder, const at::Tensor& prediction) const;

  int64_t width() const { return output_weight_.size(1); }  // H
  int64_t tokens() const { return tokens_; }                // V+1, blank included
  int64_t durations() const { return durations_; }          // D

 private:
  enum class Activation { relu, tanh, sigmoid };
  at::Tensor encoder_weight_, encoder_bias_, prediction_weight_, prediction_bias_;
  at::Tensor output_weight_, output_bias_;
  Activation activation_;
  int64_t tokens_, durations_;
};

}  // namespace rtfx
