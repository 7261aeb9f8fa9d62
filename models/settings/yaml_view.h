// Dotted look-ups in a NeMo YAML, with `${...}` interpolations resolved.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <vector>

namespace rtfx {

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
  YAML::Node find(const std::string& path) const;
  template <class T>
  std::optional<T> as(const std::string& path, const char* type) const;

  YAML::Node root_;
  std::string where_;
};

}  // namespace rtfx
