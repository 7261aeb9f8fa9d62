// The joint network: logits = W_o act(W_e e + b_e + W_p p + b_p) + b_o.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "base/gpu/activation.h"
#include "models/checkpoint/checkpoint.h"

namespace rtfx {

class Joint {
 public:
  struct Linear {
    at::Tensor weight, bias;
  };

  /// `durations`: number of duration columns after the blank (0 for RNN-T).
  Joint(const StateDict& weights, const std::string& activation, int64_t durations,
        at::Device device, at::ScalarType dtype);

  at::Tensor project_encoder(const at::Tensor& frames) const;     // [..., D] -> [..., H]
  at::Tensor project_prediction(const at::Tensor& output) const;  // [..., P] -> [..., H]

  /// Logits [..., V+1+D] of projected inputs (broadcast against each other).
  at::Tensor logits(const at::Tensor& encoder, const at::Tensor& prediction) const;

  int64_t width() const { return output_.weight.size(1); }  // H
  int64_t tokens() const { return tokens_; }                // V+1, blank included
  int64_t durations() const { return durations_; }          // D

  /// The weights themselves, for decoders with kernels of their own.
  const Linear& encoder() const { return encoder_; }        // [H, D], [H]
  const Linear& prediction() const { return prediction_; }  // [H, P], [H]
  const Linear& output() const { return output_; }          // [V+1+D, H], [V+1+D]
  Activation activation() const { return activation_; }

 private:
  Linear encoder_, prediction_, output_;
  Activation activation_;
  int64_t tokens_, durations_;
};

}  // namespace rtfx
