// The source of a checkpoint's settings: look-ups in its YAML, and the tensors beside it.
#pragma once

#include <ATen/core/Tensor.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Looks up dotted keys in a NeMo YAML, with interpolations `${key}` and `${.key}` resolved. One
/// that a look-up meets and that names no key throws UserError.
class YamlView {
 public:
  /// Throws UserError when `text` is not YAML. `where` names the file in errors.
  YamlView(const std::string& text, std::string where);

  /// Absent and null are the same: nullopt. A value of another type throws UserError.
  std::optional<std::string> text(const std::string& path) const;
  std::optional<int64_t> integer(const std::string& path) const;
  std::optional<double> number(const std::string& path) const;
  std::optional<bool> boolean(const std::string& path) const;
  std::optional<std::vector<int64_t>> integers(const std::string& path) const;
  std::optional<std::vector<std::string>> texts(const std::string& path) const;
  /// Keys of a map, in the file's order; empty where there is none.
  std::vector<std::string> keys(const std::string& path) const;
  std::optional<std::vector<double>> numbers(const std::string& path) const;
  /// [[1, 2], [3, 4]]; a plain list [1, 2] is a list of one.
  std::optional<std::vector<std::vector<int64_t>>> integer_lists(const std::string& path) const;
  bool has(const std::string& path) const;
  bool is_list(const std::string& path) const;
  /// The key is there and its value null, which NeMo's classes may tell from an absent key.
  bool states_null(const std::string& path) const;

  /// Throws UserError "unsupported setting" unless the value is absent, null or one of `supported`.
  void require(const std::string& path, const std::vector<std::string>& supported) const;

  const std::string& where() const { return where_; }

 private:
  /// The limit for one look-up. Only circles reach it.
  static constexpr int kMostInterpolations = 32;

  /// Null where there is no such key.
  YAML::Node find(const std::string& path) const;
  /// Nothing where there is no such key. `left`: interpolations that may still be followed.
  std::optional<YAML::Node> follow(const std::string& path, int& left) const;
  template <class T>
  std::optional<T> as(const std::string& path, const char* type) const;

  YAML::Node root_;
  std::string where_;
};

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
