// A configuration as it is given: the JSON of a file, the values that the command line puts into it
// ("--set a.b.0.c=value"), and the origin of each value.
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
  /// All overrides of the command line, in its order. A child process gets them too.
  const std::vector<std::string>& overrides() const { return overrides_; }
  /// The place of the whole document, "FILE#".
  std::string root() const { return file_.string() + "#"; }

  /// Notes that the override `text` set the value at the JSON pointer `pointer` and all in it.
  void add(const std::string& pointer, const std::string& text);

  /// The path that stands at `where`, made relative to the file's folder. A path in the file is so
  /// already; one in an override is relative to the working folder. Absolute paths stay.
  std::string relative(const std::string& where, const std::string& path) const;

  /// Makes of a path that stands at `where` the one that this process opens.
  std::string opened(const std::string& where, const std::string& path) const;

  /// Does `work`. If a UserError is about a value that an override set, it then names the override.
  template <class Work>
  auto naming_overrides(const Work& work) const {
    try {
      return work();
    } catch (const UserError& error) {
      throw_named(error);
    }
  }

 private:
  /// The override that set the value at `where`; null if the file did.
  const std::string* override_at(std::string_view where) const;
  UserError named(const UserError& error) const;
  [[noreturn]] void throw_named(const UserError& error) const;

  std::filesystem::path file_;
  std::vector<std::string> overrides_;
  std::map<std::string, std::string, std::less<>> set_;  // by pointer: the override that set it
};

struct Document {
  /// Puts the overrides "a.b.0.c=value" into `value`, and makes objects on the way. An override's
  /// value is JSON, or else plain text. Models that are named as on huggingface.co become paths
  /// (models/formats/hub.h). Throws UserError for all overrides that lead nowhere, and for models
  /// that were not downloaded.
  Document(nlohmann::json value, const std::filesystem::path& file,
           const std::vector<std::string>& overrides = {});

  nlohmann::json value;
  Origins origins;
};

/// The JSON of the file with the overrides. Throws UserError.
Document read_document(const std::filesystem::path& file,
                       const std::vector<std::string>& overrides = {});

// The paths among the values of a configuration, found by the tables of its options.

/// Gets a path, which it may change, and its place ("FILE#/models/0/path").
using VisitPath = std::function<void(const std::string& where, nlohmann::json& path)>;

/// Visits each non-empty text that `object` gives to an option of `table` that is a file. Options
/// may be lists of such texts, or lie in lists of objects. `where` is the place of `object`.
void for_each_path(const std::vector<OptionInfo>& table, const std::string& where,
                   nlohmann::json& object, const VisitPath& visit);

/// Visits the paths of a whole configuration: those of its keys, which `keys` describes, and those
/// among the options of decoders that are registered. `where` is the place of `document`.
void for_each_path_of_document(const std::vector<OptionInfo>& keys, const std::string& where,
                               nlohmann::json& document, const VisitPath& visit);

/// The JSON with every path relative to the file's folder, as it can be written into that folder.
/// `keys` describes the keys of a configuration.
nlohmann::json with_relative_paths(const std::vector<OptionInfo>& keys, const Document& document);

}  // namespace rtfx
