// Files of tests. The tests of one program run in several processes at a time.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace rtfx::test {

/// Returns the path of a file in a folder of this process, which is removed when the process ends.
inline std::filesystem::path own_path(const std::string& name) {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::string made = (std::filesystem::temp_directory_path() / "rtfx-test-XXXXXX").string();
      path = mkdtemp(made.data());
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path / name;
}

}  // namespace rtfx::test
