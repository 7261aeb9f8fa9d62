// The source of a checkpoint's settings, and the ways to read them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "models/checkpoint/state_dict.h"
#include "models/settings/yaml_view.h"

namespace rtfx {

/// One reading of a checkpoint: the YAML, the tensors under canonical names and where they
/// disagree. References; valid as long as what they refer to.
struct ConfigSource {
  const YamlView& yaml;
  const StateDict& weights;
  std::vector<std::string>& notices;

  bool has(const std::string& name) const { return weights.contains(name); }
  bool has_prefix(const std::string& prefix) const;
  /// Throws UserError where it is missing.
  const at::Tensor& tensor(const std::string& name) const;
  /// Extent `axis` of a tensor that has `axes` of them, none empty. Throws UserError otherwise.
  int64_t extent(const std::string& name, int64_t axes, int64_t axis) const;
  /// The tensors' value; a different one in the YAML becomes a notice.
  int64_t decide(const std::string& path, int64_t from_tensors) const;
  /// How many tensors <prefix>0<suffix>, <prefix>1<suffix>, ... there are.
  int64_t count(const std::string& prefix, const std::string& suffix) const;
  /// The YAML's integer, or `otherwise`. Throws UserError where it is not in [least, most].
  int64_t integer(const std::string& path, int64_t otherwise, int64_t least, int64_t most) const;
  [[noreturn]] void refuse(const std::string& problem, const std::string& remedy) const;
};

}  // namespace rtfx
