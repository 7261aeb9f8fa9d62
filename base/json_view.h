// A JSON value that knows where it stands, so that every complaint names file and pointer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rtfx {

class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  /// "file.json#/decoders/0/name"
  const std::string& where() const { return where_; }
  const nlohmann::json& value() const { return *value_; }

  /// Throws UserError for a non-object and for a key that is not in `allowed` (nearest named).
  /// `kind`: what a key is called in the message.
  void check_keys(const std::vector<std::string>& allowed, const char* kind = "key") const;
  /// nullopt when the key is absent or null.
  std::optional<JsonView> find(const std::string& key) const;
  /// Throws UserError when absent.
  JsonView at(const std::string& key) const;
  /// The elements of a list; a single value counts as a list of one. Throws for an empty list.
  std::vector<JsonView> elements() const;

  std::string text() const;
  bool boolean() const;
  int64_t integer(int64_t low, int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(double low, double high) const;
  std::string choice(const std::vector<std::string>& allowed) const;
  /// A file that exists.
  std::filesystem::path file() const;

  /// The name of a range in messages: "an integer 1..1000", "an integer from 1", "a number 0..1".
  static std::string range_text(int64_t low, int64_t high);
  static std::string range_text(double low, double high);

  [[noreturn]] void fail(const std::string& allowed) const;

 private:
  JsonView child(const std::string& key, const nlohmann::json& value) const;

  const nlohmann::json* value_;
  std::string where_;
};

}  // namespace rtfx
