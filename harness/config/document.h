// A configuration as the user gives it: the JSON of a file, and the values that the command line
// puts into it ("--set a.b.0.c=value"). The origin of each value is known.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/options.h"

namespace rtfx {

/// Tells whether a value came from the file or from an override. The place of a value is written as
/// errors have it: "FILE#/a/b", the file and a JSON pointer.
class Origins {
 public:
  Origins() = default;
  explicit Origins(std::filesystem::path file) : file_(std::move(file)) {}

  const std::filesystem::path& file() const { return file_; }
  /// Returns all overrides in the order of the command line. A child process gets them too.
  const std::vector<std::string>& overrides() const { return overrides_; }
  /// Returns the place of the whole document, "FILE#".
  std::string root() const { return file_.string() + "#"; }

  /// Records that the override `text` set the value at the JSON pointer `pointer`, and everything
  /// in that value.
  void add(const std::string& pointer, const std::string& text);

  /// Returns the path of a value at `where`, relative to the file's folder. A path in the file is
  /// relative to that folder already. A path in an override is relative to the working folder.
  /// Absolute paths do not change.
  std::string relative(const std::string& where, const std::string& path) const;

  /// Returns the path that this process must open for the path of a value at `where`.
  std::string opened(const std::string& where, const std::string& path) const;

  /// Calls `work`. If it throws a UserError about a value that an override set, the error then
  /// names the override.
  template <class Work>
  auto naming_overrides(const Work& work) const {
    try {
      return work();
    } catch (const UserError& error) {
      throw_named(error);
    }
  }

 private:
  /// Returns the override that set the value at `where`; null if the file did.
  const std::string* override_at(std::string_view where) const;
  UserError named(const UserError& error) const;
  [[noreturn]] void throw_named(const UserError& error) const;

  std::filesystem::path file_;
  std::vector<std::string> overrides_;
  /// Override that set a value, indexed by JSON pointer.
  std::map<std::string, std::string, std::less<>> set_;
};

struct Document {
  /// Puts the overrides "a.b.0.c=value" into `value`, and makes missing objects. A text in the list
  /// of models or decoders becomes an object where an override sets a part of it. Index 0 also
  /// names an entry that stands for a list of one. The value of an override is JSON, or else plain
  /// text. Names of models on huggingface.co become paths (models/formats/hub.h). Throws UserError
  /// for all overrides whose place does not exist, and for models that were not downloaded.
  Document(nlohmann::json value, const std::filesystem::path& file,
           const std::vector<std::string>& overrides = {});

  nlohmann::json value;
  Origins origins;
};

/// Reads the JSON of the file, and applies the overrides. Throws UserError.
Document read_document(const std::filesystem::path& file,
                       const std::vector<std::string>& overrides = {});

// Finds the paths among the values of a configuration by the tables of its options.

/// Takes a path, which the function may change, and its place ("FILE#/models/0/path").
using VisitPath = std::function<void(const std::string& where, nlohmann::json& path)>;

/// Visits each non-empty text that `object` gives to a file option of `table`. Such options may be
/// lists, or lie in lists of objects. `where` is the place of `object`.
void for_each_path(const std::vector<OptionInfo>& table, const std::string& where,
                   nlohmann::json& object, const VisitPath& visit);

/// Visits the paths of a whole configuration: those of its keys, which `keys` describes, and those
/// in the options of registered decoders. `where` is the place of `document`.
void for_each_path_of_document(const std::vector<OptionInfo>& keys, const std::string& where,
                               nlohmann::json& document, const VisitPath& visit);

/// Returns the JSON with every path relative to the file's folder, so that it can be written into
/// that folder. `keys` describes the keys of a configuration.
nlohmann::json with_relative_paths(const std::vector<OptionInfo>& keys, const Document& document);

}  // namespace rtfx
