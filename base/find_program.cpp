#include "base/find_program.h"

#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace rtfx {
namespace {

using std::filesystem::path;

bool is_program(const path& file) {
  return std::filesystem::is_regular_file(file) && access(file.c_str(), X_OK) == 0;
}

}  // namespace

std::vector<path> files_like(const std::string& pattern) {
  glob_t found{};
  std::vector<path> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return files;
}

path find_program(const std::string& name, std::span<const char* const> patterns) {
  const char* search = std::getenv("PATH");
  std::stringstream folders(search == nullptr ? "" : search);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (path file = path(folder) / name; is_program(file)) return file;
  for (const char* pattern : patterns) {
    std::vector<path> files = files_like(pattern);
    std::erase_if(files, [](const path& file) { return !is_program(file); });
    if (!files.empty()) return files.back();
  }
  return {};
}

}  // namespace rtfx
