#include "datasets/audio_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "datasets/utterance_list.h"

namespace rtfx {
namespace {

bool ends_in(const std::filesystem::path& path, const std::vector<std::string>& endings) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::any_of(endings.begin(), endings.end(),
                     [&](const std::string& ending) { return name.ends_with(ending); });
}

}  // namespace

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::vector<std::string>& endings) {
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(folder.string(), "no such folder", "check the path");
  }
  std::vector<std::filesystem::path> found;
  const auto options = std::filesystem::directory_options::follow_directory_symlink;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, options)) {
    if (entry.is_regular_file() && ends_in(entry.path(), endings)) found.push_back(entry.path());
  }
  if (found.empty()) {
    throw UserError(folder.string(),
                    fmt::format("holds no file ending in {}", fmt::join(endings, ", ")),
                    "name another folder");
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<Utterance> list_audio_files(const std::vector<std::string>& paths) {
  UtteranceList list;
  const auto add = [&](const std::filesystem::path& path) {
    list.add({.id = path.string(), .audio = path, .seconds = 0, .text = {}}, path.string());
  };
  for (const std::filesystem::path path : paths) {
    std::error_code failed;  // such as links that lead to each other: reading the file says so
    const auto type = std::filesystem::status(path, failed).type();
    if (type == std::filesystem::file_type::directory) {
      for (const auto& file : files_below(path, {".wav", ".flac", ".ogg"})) add(file);
    } else if (type == std::filesystem::file_type::not_found) {
      throw UserError(path.string(), "no such file or folder", "check the path");
    } else {
      add(path);
    }
  }
  return list.take();
}

}  // namespace rtfx
