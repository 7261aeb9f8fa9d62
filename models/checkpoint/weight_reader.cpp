#include "models/checkpoint/weight_reader.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "models/checkpoint/mapped_tensor.h"

namespace rtfx {

at::Tensor WeightReader::raw(const std::string& name) const {
  const auto found = weights_.find(prefix_ + name);
  return found == weights_.end() ? at::Tensor() : found->second.to(at::kFloat);
}

at::Tensor WeightReader::get(const std::string& name) const {
  at::Tensor tensor = optional(name);
  RTFX_CHECK(tensor.defined(), "no tensor " + prefix_ + name);
  return tensor;
}

at::Tensor WeightReader::optional(const std::string& name) const {
  const auto found = weights_.find(prefix_ + name);
  if (found == weights_.end()) return {};
  const bool copied = device_ != found->second.device() || dtype_ != found->second.scalar_type();
  if (copied) fetch_pages(found->second);
  at::Tensor placed = place(found->second);
  if (!placed.is_alias_of(found->second)) release_pages(found->second);
  return placed;
}

at::Tensor WeightReader::joined(const std::vector<std::string>& names) const {
  std::vector<at::Tensor> parts;
  for (const std::string& name : names) {
    if (at::Tensor tensor = optional(name); tensor.defined()) parts.push_back(std::move(tensor));
  }
  if (parts.empty()) return {};
  at::Tensor whole = at::cat(parts);
  for (const at::Tensor& part : parts) release_pages(part);
  return whole;
}

at::Tensor WeightReader::place(const at::Tensor& tensor) const {
  return tensor.to(device_, dtype_).contiguous();
}

}  // namespace rtfx
