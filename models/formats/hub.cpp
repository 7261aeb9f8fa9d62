#include "models/formats/hub.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <regex>
#include <string>
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

/// The folder with the files of the model's revision `main`; empty if there is none.
fs::path snapshot(const std::string& name) {
  std::string folder = "models--" + name;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path model = cache_folder() / folder;
  std::string revision;
  std::ifstream(model / "refs" / "main") >> revision;
  const fs::path files = model / "snapshots" / revision;
  return !revision.empty() && fs::is_directory(files) ? files : fs::path();
}

/// The checkpoint in `folder`, which has been downloaded: its .nemo file, else the folder itself.
fs::path checkpoint_in(const fs::path& folder, const std::string& where) {
  std::vector<fs::path> archives;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".nemo") archives.push_back(entry.path());
  }
  if (archives.size() > 1)
    throw UserError(where, fmt::format("{} holds {} .nemo files", folder.string(), archives.size()),
                    "give the path of one of them");
  return archives.empty() ? folder : archives.front();
}

}  // namespace

std::optional<std::string> hub_name(const std::string& given) {
  static const std::regex address(
      R"(https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)(?:[/?#].*)?)");
  static const std::regex name(R"([\w-][\w.-]*/[\w-][\w.-]*)");
  std::smatch match;
  if (std::regex_match(given, match, address)) return match[1].str();
  const fs::path path = given;
  const bool is_file = path.extension() == ".nemo" || fs::exists(path.parent_path());
  return std::regex_match(given, name) && !is_file ? std::optional(given) : std::nullopt;
}

fs::path find_checkpoint(const fs::path& given) {
  if (fs::is_directory(given))
    return fs::exists(given / "config.json") ? given : checkpoint_in(given, given.string());
  if (fs::exists(given)) return given;
  const std::optional<std::string> name = hub_name(given.string());
  if (!name) return given;
  const fs::path folder = snapshot(*name);
  if (!folder.empty()) return checkpoint_in(folder, given.string());
  throw UserError(given.string(), "this model of huggingface.co is not on this machine",
                  fmt::format("get it with 'hf download {}' (pip install huggingface_hub)", *name));
}

}  // namespace rtfx
