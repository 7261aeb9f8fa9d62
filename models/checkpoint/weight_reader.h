// Weights under a common prefix, cast and moved to where they are needed.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "models/checkpoint/state_dict.h"

namespace rtfx {

/// A view of `weights`; valid as long as they are. `device` and `dtype` are what get() returns.
/// Weights of a file that are wanted on the CPU in the type that they are stored in stay views of
/// it: they take no memory of their own, and processes share them. All others are copied, and the
/// memory that reading them took is given back one tensor at a time.
class WeightReader {
 public:
  WeightReader(const StateDict& weights, std::string prefix, at::Device device,
               at::ScalarType dtype)
      : weights_(weights), prefix_(std::move(prefix)), device_(device), dtype_(dtype) {}

  WeightReader below(const std::string& name) const {
    return {weights_, prefix_ + name + ".", device_, dtype_};
  }

  /// Widened to float32, on the CPU; undefined when absent.
  at::Tensor raw(const std::string& name) const;
  /// On the device in the model's dtype. Throws std::logic_error when absent.
  at::Tensor get(const std::string& name) const;
  /// Undefined when absent (biases that a checkpoint does not have).
  at::Tensor optional(const std::string& name) const;
  /// Those of `names` that are there, one behind the other along the first axis; undefined for
  /// none.
  at::Tensor joined(const std::vector<std::string>& names) const;
  at::Tensor place(const at::Tensor& tensor) const;

  at::Device device() const { return device_; }
  at::ScalarType dtype() const { return dtype_; }

 private:
  const StateDict& weights_;
  std::string prefix_;
  at::Device device_;
  at::ScalarType dtype_;
};

}  // namespace rtfx
