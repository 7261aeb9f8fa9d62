// Folders for the files of tests. The tests of one program run in several processes at a time.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace rtfx::test {

/// A new folder, which is removed with its files in the destructor.
class OwnFolder {
 public:
  OwnFolder() {
    std::string made = (std::filesystem::temp_directory_path() / "rtfx-test-XXXXXX").string();
    path_ = mkdtemp(made.data());
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Returns the path of a file in a folder of this process, which is removed when the process ends.
inline std::filesystem::path own_path(const std::string& name) {
  static const OwnFolder folder;
  return folder.path() / name;
}

}  // namespace rtfx::test
