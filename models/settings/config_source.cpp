#include "models/settings/config_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace rtfx {

bool ConfigSource::has_prefix(const std::string& prefix) const {
  const auto found = weights.lower_bound(prefix);
  return found != weights.end() && found->first.starts_with(prefix);
}

const at::Tensor& ConfigSource::tensor(const std::string& name) const {
  const auto found = weights.find(name);
  if (found == weights.end()) {
    refuse(fmt::format("tensor '{}' is missing", name),
           "not a CTC, RNN-T or TDT model with a Conformer encoder, or incomplete");
  }
  return found->second;
}

int64_t ConfigSource::extent(const std::string& name, int64_t axes, int64_t axis) const {
  const at::Tensor& t = tensor(name);
  if (t.dim() != axes || t.numel() == 0) {
    refuse(fmt::format("tensor '{}' has shape [{}], expected {} extents, none of them 0", name,
                       fmt::join(t.sizes(), ", "), axes),
           "the checkpoint is damaged");
  }
  return t.size(axis);
}

int64_t ConfigSource::decide(const std::string& path, int64_t from_tensors) const {
  const auto from_yaml = yaml.integer(path);
  if (from_yaml && *from_yaml != from_tensors) {
    notices.push_back(fmt::format("{}: the YAML says {}, the tensors {}; the tensors decide", path,
                                  *from_yaml, from_tensors));
  }
  return from_tensors;
}

int64_t ConfigSource::count(const std::string& prefix, const std::string& suffix) const {
  int64_t n = 0;
  while (has(fmt::format("{}{}{}", prefix, n, suffix))) ++n;
  return n;
}

int64_t ConfigSource::integer(const std::string& path, int64_t otherwise, int64_t least,
                              int64_t most) const {
  const int64_t value = yaml.integer(path).value_or(otherwise);
  if (value < least || value > most) {
    refuse(fmt::format("{} is {}", path, value), fmt::format("{} to {} is possible", least, most));
  }
  return value;
}

void ConfigSource::refuse(const std::string& problem, const std::string& remedy) const {
  throw UserError(yaml.where(), problem, remedy);
}

}  // namespace rtfx
