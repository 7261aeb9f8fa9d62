#include "models/formats/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <regex>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace rtfx {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path cache_folder() {
  if (const std::string folder = environment("HF_HUB_CACHE"); !folder.empty()) return folder;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string caches = environment("XDG_CACHE_HOME");
  return (caches.empty() ? fs::path(environment("HOME")) / ".cache" : fs::path(caches)) /
         "huggingface" / "hub";
}

/// Returns whether the path exists. A path that cannot be examined counts as absent.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

UserError cannot_open(const fs::path& path, const std::error_code& error) {
  return {path.string(), "cannot be opened: " + error.message(),
          "check the path and its permissions"};
}

/// Returns the folder with the files of the model's revision `main`. The path is empty if there is
/// none.
fs::path snapshot(const std::string& name) {
  std::string folder = "models--" + name;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path model = cache_folder() / folder;
  std::string revision;
  std::ifstream(model / "refs" / "main") >> revision;
  const fs::path files = model / "snapshots" / revision;
  std::error_code error;
  return !revision.empty() && fs::is_directory(files, error) ? files : fs::path();
}

/// Returns the checkpoint in `folder`, which has been downloaded: its .nemo file, else the folder
/// itself.
fs::path checkpoint_in(const fs::path& folder, const std::string& where) {
  std::vector<fs::path> archives;
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (error) throw cannot_open(folder, error);
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().extension() == ".nemo") archives.push_back(entry.path());
  }
  if (archives.size() > 1)
    throw UserError(where, fmt::format("{} holds {} .nemo files", folder.string(), archives.size()),
                    "give the path of one of them");
  return archives.empty() ? folder : archives.front();
}

/// Returns whether the files of a downloaded checkpoint exist: an archive, or a folder with the
/// file that describes the model. `hf download` makes a link for each file, which may be broken.
bool is_whole(const fs::path& checkpoint) {
  std::error_code error;
  if (!fs::is_directory(checkpoint, error)) return is_there(checkpoint);
  if (!is_there(checkpoint / "config.json") && !is_there(checkpoint / "model_config.yaml"))
    return false;
  return std::ranges::all_of(fs::directory_iterator(checkpoint),
                             [](const auto& entry) { return is_there(entry.path()); });
}

}  // namespace

std::optional<std::string> hub_name(const std::string& given) {
  // std::regex needs stack space for each character. Names on the hub have 96 at most.
  constexpr size_t kLongest = 1000;
  if (given.size() > kLongest) return std::nullopt;
  static const std::regex address(
      R"(https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)(?:[/?#].*)?)");
  static const std::regex name(R"([\w-][\w.-]*/[\w-][\w.-]*)");
  std::smatch match;
  if (std::regex_match(given, match, address)) return match[1].str();
  const fs::path path = given;
  const bool is_file = path.extension() == ".nemo" || is_there(path.parent_path());
  return std::regex_match(given, name) && !is_file ? std::optional(given) : std::nullopt;
}

fs::path find_checkpoint(const fs::path& given) {
  std::error_code error;
  const fs::file_status found = fs::status(given, error);
  if (!fs::status_known(found)) throw cannot_open(given, error);
  if (fs::is_directory(found))
    return is_there(given / "config.json") ? given : checkpoint_in(given, given.string());
  if (fs::exists(found)) return given;
  const std::optional<std::string> name = hub_name(given.string());
  if (!name) return given;
  const fs::path folder = snapshot(*name);
  if (!folder.empty()) {
    const fs::path checkpoint = checkpoint_in(folder, given.string());
    if (is_whole(checkpoint)) return checkpoint;
    throw UserError(given.string(), "the download of this model is incomplete",
                    fmt::format("run 'hf download {}' again", *name));
  }
  throw UserError(given.string(), "this model of huggingface.co is not on this machine",
                  fmt::format("get it with 'hf download {}' (pip install huggingface_hub)", *name));
}

}  // namespace rtfx
