// The source of a checkpoint's settings: look-ups in its YAML, and the tensors beside it.
#pragma once

#include <ATen/core/Tensor.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Looks up dotted keys in a NeMo YAML and resolves the interpolations `${key}` and `${.key}`. A
/// look-up throws UserError when it meets an interpolation whose key does not exist.
class YamlView {
 public:
  /// Throws UserError when `text` is not YAML. `where` names the file in errors.
  YamlView(const std::string& text, std::string where);

  /// All of these return nullopt for an absent key and for null. They throw UserError for a value
  /// of another type.
  std::optional<std::string> text(const std::string& path) const;
  std::optional<int64_t> integer(const std::string& path) const;
  std::optional<double> number(const std::string& path) const;
  std::optional<bool> boolean(const std::string& path) const;
  std::optional<std::vector<int64_t>> integers(const std::string& path) const;
  std::optional<std::vector<std::string>> texts(const std::string& path) const;
  /// Returns the keys of a map in the file's order. The list is empty where there is no map.
  std::vector<std::string> keys(const std::string& path) const;
  std::optional<std::vector<double>> numbers(const std::string& path) const;
  /// Reads lists such as [[1, 2], [3, 4]]. A plain list [1, 2] counts as a list of one list.
  std::optional<std::vector<std::vector<int64_t>>> integer_lists(const std::string& path) const;
  bool has(const std::string& path) const;
  bool is_list(const std::string& path) const;
  /// Returns whether the value is neither absent nor null, nor an empty text, list or map.
  bool has_content(const std::string& path) const;
  /// Returns whether the key exists and its value is null. NeMo's classes may tell this from an
  /// absent key.
  bool states_null(const std::string& path) const;

  /// Throws UserError "unsupported setting" unless the value is absent, null or one of `supported`.
  void require(const std::string& path, const std::vector<std::string>& supported) const;

  const std::string& where() const { return where_; }

 private:
  /// The limit of one look-up. Only circular references reach it.
  static constexpr int kMostInterpolations = 32;

  /// Returns null where there is no such key.
  YAML::Node find(const std::string& path) const;
  /// Returns nothing where there is no such key. `left` counts the interpolations that may still be
  /// followed.
  std::optional<YAML::Node> follow(const std::string& path, int& left) const;
  template <class T>
  std::optional<T> as(const std::string& path, const char* type) const;

  YAML::Node root_;
  std::string where_;
};

/// The inputs of one reading of a checkpoint: the YAML and the tensors under canonical names.
/// `notices` collects where they disagree. The members are references, and valid as long as what
/// they refer to.
struct ConfigSource {
  const YamlView& yaml;
  const StateDict& weights;
  std::vector<std::string>& notices;

  bool has(const std::string& name) const { return weights.contains(name); }
  bool has_prefix(const std::string& prefix) const;
  /// Returns the tensor. Throws UserError where it is missing.
  const at::Tensor& tensor(const std::string& name) const;
  /// Returns the extent of axis `axis`. Throws UserError unless the tensor has `axes` axes and none
  /// is empty.
  int64_t extent(const std::string& name, int64_t axes, int64_t axis) const;
  /// Returns `from_tensors`, the value that the tensors imply. A different value in the YAML
  /// becomes a notice.
  int64_t decide(const std::string& path, int64_t from_tensors) const;
  /// Counts the tensors <prefix>0<suffix>, <prefix>1<suffix>, ... up to the first that is missing.
  int64_t count(const std::string& prefix, const std::string& suffix) const;
  /// Returns the YAML's integer, or `otherwise` where there is none. Throws UserError outside of
  /// [least, most].
  int64_t integer(const std::string& path, int64_t otherwise, int64_t least, int64_t most) const;
  [[noreturn]] void refuse(const std::string& problem, const std::string& remedy) const;
};

}  // namespace rtfx
