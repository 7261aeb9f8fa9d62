// A transducer's weights in the layout of search.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "algorithms/decoders/greedy/fused_looping/search.h"
#include "models/acoustic_model.h"

namespace rtfx::fused {

class Weights {
 public:
  /// Copies and repacks the weights, and does not keep the model's own tensors. Throws UserError
  /// for a dtype, a number of durations or a prediction network that the kernels do not cover.
  explicit Weights(const AcousticModel& model);

  /// Returns pointers into this object's tensors.
  const Model& view() const { return view_; }

  /// Returns encoder frames [B, T', D] in the form that the kernels read: contiguous, with an
  /// address and a number of bytes per frame that are multiples of 16. Most models have such frames
  /// already.
  at::Tensor frames_in(const at::Tensor& frames) const;

  int64_t hidden_width() const { return hidden_width_; }  // H padded
  int64_t state_width() const { return state_width_; }    // P padded

 private:
  const void* keep(at::Tensor tensor);
  const float* keep_floats(const at::Tensor& vector, int64_t at_least);
  /// Packs a matrix in groups of `together` tiles.
  Matrix pack(at::Tensor weight, int64_t together = 1);
  void add_lstm(const PredictionNetwork& network, const Joint::Linear& projection);
  void add_stateless(const PredictionNetwork& network, const Joint::Linear& projection);

  Model view_{};
  std::vector<at::Tensor> kept_;
  int64_t hidden_width_ = 0, state_width_ = 0;
};

}  // namespace rtfx::fused
