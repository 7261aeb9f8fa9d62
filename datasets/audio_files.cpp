#include "datasets/audio_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/printable.h"
#include "datasets/media.h"
#include "datasets/missing_files.h"

namespace rtfx {

namespace {

/// Returns whether a file is AppleDouble. macOS writes such a file, "._NAME", beside the file NAME
/// in archives and on disks of other systems. It has attributes of NAME and nothing of its content.
bool is_apple_double(const std::filesystem::path& path) {
  constexpr std::string_view kMagic("\0\x05\x16\x07", 4);
  if (!path.filename().string().starts_with("._")) return false;
  return bytes_at(path, 0, kMagic.size()) == kMagic;
}

class FolderWalk {
 public:
  explicit FolderWalk(const std::vector<std::string>& endings) : endings_(endings) {}

  void enter(const std::filesystem::path& folder) {
    std::error_code failed;
    // A link may lead to a folder that contains it.
    const auto place = std::filesystem::canonical(folder, failed);
    if (failed) return list(folder);
    if (!entered_.insert(place).second) return;
    list(folder);
    entered_.erase(place);
  }

  std::vector<std::filesystem::path> found;
  std::vector<UserError> skipped;
  int64_t apple_doubles = 0;  // files that were left out

 private:
  void list(const std::filesystem::path& folder) {
    std::error_code failed;
    std::filesystem::directory_iterator entries(folder, failed);
    if (failed) return skip(folder, failed.message(), "check its permissions");
    while (entries != std::filesystem::directory_iterator()) {
      visit(*entries);
      entries.increment(failed);
      if (failed) return skip(folder, failed.message(), "check its permissions");
    }
  }

  void visit(const std::filesystem::directory_entry& entry) {
    std::error_code failed;
    const auto type = entry.status(failed).type();
    if (type == std::filesystem::file_type::directory) return enter(entry.path());
    if (!has_ending(entry.path(), endings_)) return;
    switch (type) {
      case std::filesystem::file_type::regular:
        if (is_apple_double(entry.path()))
          ++apple_doubles;
        else
          found.push_back(entry.path());
        break;
      case std::filesystem::file_type::not_found:
        skip(entry.path(), "is a link to nothing", "mend or remove it");
        break;
      case std::filesystem::file_type::none:
      case std::filesystem::file_type::unknown:
        skip(entry.path(), failed.message(), "check its permissions");
        break;
      default:
        skip(entry.path(), "is a pipe or device, not a file", "move it out of the folder");
    }
  }

  void skip(const std::filesystem::path& path, const std::string& problem, const char* remedy) {
    skipped.emplace_back(path.string(), problem, remedy);
  }

  const std::vector<std::string>& endings_;
  std::set<std::filesystem::path> entered_;
};

}  // namespace

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::vector<std::string>& endings,
                                               std::vector<std::string>* notices,
                                               std::vector<UserError>* skipped) {
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(folder.string(), "no such folder", "check the path");
  }
  FolderWalk walk(endings);
  walk.enter(folder);
  if (skipped == nullptr) {
    ErrorList errors;
    for (const UserError& error : walk.skipped) errors.add(error);
    errors.throw_any();
  } else {
    skipped->insert(skipped->end(), walk.skipped.begin(), walk.skipped.end());
  }
  const std::string left_out =
      counted(walk.apple_doubles, "file") + " ._*, in which macOS keeps attributes of other files";
  if (walk.found.empty() && walk.skipped.empty()) {
    throw UserError(folder.string(),
                    fmt::format("holds no file ending in {}{}", fmt::join(endings, ", "),
                                walk.apple_doubles > 0 ? ", apart from " + left_out : ""),
                    "name another folder");
  }
  if (walk.apple_doubles > 0 && notices != nullptr)
    notices->push_back(fmt::format("{}: left out {}", folder.string(), left_out));
  std::sort(walk.found.begin(), walk.found.end());
  return std::move(walk.found);
}

std::vector<Utterance> list_audio_files(const std::vector<std::string>& paths,
                                        const std::string& where,
                                        std::vector<std::string>& notices) {
  UtteranceList list;
  MissingFiles missing;
  const auto add = [&](const std::filesystem::path& path) {
    list.add({.id = path.string(), .audio = path, .seconds = 0, .text = {}}, path.string());
  };
  for (const std::filesystem::path path : paths) {
    std::error_code failed;
    const auto type = std::filesystem::status(path, failed).type();
    if (type == std::filesystem::file_type::directory) {
      for (const auto& file : files_below(path, media_endings(), &notices)) add(file);
    } else if (type == std::filesystem::file_type::regular) {
      add(path);
    } else if (type == std::filesystem::file_type::not_found) {
      missing.add(path, {path.string(), "no such file or folder", "check the path"});
    } else if (type == std::filesystem::file_type::none) {  // such as links that form a circle
      throw UserError(path.string(), failed.message(), "check the path");
    } else {
      throw UserError(path.string(), "is a pipe or device, not a file", "name a file");
    }
  }
  missing.throw_any(where, paths.size(), "files or folders");
  return list.take();
}

}  // namespace rtfx
