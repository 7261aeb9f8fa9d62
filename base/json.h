// JSON from files that other people made: every complaint names the file with its line or JSON
// pointer.
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

/// The value that `text` holds. Throws UserError with `where`, line and column for what is no JSON,
/// and for more than 100 levels of nesting. It also throws for a number beyond a double, and for a
/// key that an object holds twice. `remedy` of all these.
nlohmann::json parse_json(std::string_view text, std::string_view where,
                          std::string_view remedy = "write plain JSON, without comments");

/// Parses a whole file. Also throws UserError where it cannot be read or has more than 256 MiB.
nlohmann::json read_json_file(const std::filesystem::path& path);

/// JSON on one line, or with each level indented by `indent` blanks. Bytes that are not UTF-8,
/// which file names may hold, become U+FFFD.
std::string to_text(const nlohmann::json& value, int indent = -1);

/// to_text() on one line, with its end.
std::string to_line(const nlohmann::json& value);

/// A member of an object that is text; empty where there is none, or `object` is no object.
std::string text_in(const nlohmann::json& object, const char* key);

/// A JSON value that knows where it stands, so that every complaint names file and pointer.
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

  /// Text that is not empty and holds no NUL, since the system would read a path up to it alone.
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
  void require_no_nul() const;

  const nlohmann::json* value_;
  std::string where_;
};

}  // namespace rtfx
