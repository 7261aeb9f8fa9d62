#include "models/weight_reader.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace rtfx {

at::Tensor WeightReader::raw(const std::string& name) const {
  const auto found = weights_.find(prefix_ + name);
  return found == weights_.end() ? at::Tensor() : found->second.to(at::kFloat);
}

at::Tensor WeightReader::optional(const std::string& name) const {
  const at::Tensor tensor = raw(name);
  return tensor.defined() ? place(tensor) : tensor;
}

at::Tensor WeightReader::place(const at::Tensor& tensor) const {
  return tensor.to(device_, dtype_).contiguous();
}

at::Tensor WeightReader::checked(const std::string& name) const {
  at::Tensor tensor = raw(name);
  RTFX_CHECK(tensor.defined(), "no tensor " + prefix_ + name);
  return tensor;
}

}  // namespace rtfx
