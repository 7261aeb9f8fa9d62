// JSON from files that other people made. Every error names the file with its line or JSON pointer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// Parses `text`. Throws UserError with `where`, line and column for text that is no JSON. Throws
/// it with `where` for more than 100 levels of nesting, for a number beyond a double, and for a key
/// that an object holds twice. `remedy` is the remedy of the first two errors.
nlohmann::json parse_json(std::string_view text, std::string_view where,
                          std::string_view remedy = "write plain JSON, without comments");

/// Parses a whole file. Also throws UserError where it cannot be read, is empty or has more than
/// 256 MiB.
nlohmann::json read_json_file(const std::filesystem::path& path);

/// Writes JSON on one line, or with each level indented by `indent` blanks if that is not negative.
/// Bytes that are not UTF-8, which file names may hold, become U+FFFD.
std::string to_text(const nlohmann::json& value, int indent = -1);

/// Returns to_text() on one line, followed by a line end.
std::string to_line(const nlohmann::json& value);

/// Returns the member `key` of an object if it is text. Returns an empty string if it is not, if
/// there is no such member, or if `object` is no object.
std::string text_in(const nlohmann::json& object, const char* key);

/// A JSON value with its place, so that every error names file and pointer.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  /// Returns the place of the value, for example "file.json#/decoders/0/name".
  const std::string& where() const { return where_; }
  const nlohmann::json& value() const { return *value_; }

  /// Throws UserError for a non-object and for a key that is not in `allowed`. The message names
  /// the nearest allowed key, and calls a key `kind`.
  void check_keys(const std::vector<std::string>& allowed, const char* kind = "key") const;
  /// Returns the member `key`, or nullopt when it is absent or null.
  std::optional<JsonView> find(const std::string& key) const;
  /// Returns the member `key`. Throws UserError when it is absent or null.
  JsonView at(const std::string& key) const;
  /// Returns the elements of a list. A single value counts as a list of one. Throws UserError for
  /// an empty list.
  std::vector<JsonView> elements() const;

  /// Returns a text that is not empty and holds no NUL, since the system would read a path only up
  /// to the NUL. This and the functions below throw UserError for any other value.
  std::string text() const;
  bool boolean() const;
  int64_t integer(int64_t low, int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(double low, double high) const;
  std::string choice(const std::vector<std::string>& allowed) const;
  /// Returns the path of an existing file that is no directory.
  std::filesystem::path file() const;

  /// Names a range for messages: "an integer 1..1000", "an integer from 1", "a number 0..1".
  static std::string range_text(int64_t low, int64_t high);
  static std::string range_text(double low, double high);

  /// Throws UserError: this value is not allowed, but `allowed` is.
  [[noreturn]] void fail(const std::string& allowed) const;

 private:
  JsonView child(const std::string& key, const nlohmann::json& value) const;

  const nlohmann::json* value_;
  std::string where_;
};

}  // namespace rtfx
