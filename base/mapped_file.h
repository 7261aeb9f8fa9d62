// A file in memory without being read: the system brings in the pages that are looked at.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace rtfx {

/// Whoever shortens the file meanwhile ends this process by SIGBUS (harness/cli/main.cpp says so in
/// one line); replacing it by another, as `mv` does, changes nothing.
class MappedFile {
 public:
  /// Maps `path` read-only for as long as somebody holds the result. Throws UserError where it is
  /// absent, empty, no regular file or cannot be read.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string_view bytes() const { return {begin_, size_}; }
  bool holds(const void* address) const {
    return address >= begin_ && address < static_cast<const void*>(begin_ + size_);
  }

  /// Brings the pages of `part` into memory at once, which costs less than one after the other as
  /// they are looked at.
  void fetch(std::string_view part) const;

  /// Gives back the memory of whole pages within `part` of bytes(). They are read again from the
  /// file where somebody looks at them later.
  void release(std::string_view part) const;

 private:
  MappedFile(std::filesystem::path path, const char* begin, size_t size)
      : path_(std::move(path)), begin_(begin), size_(size) {}

  size_t offset_of(std::string_view part) const;
  void advise(size_t begin, size_t end, int advice) const;

  std::filesystem::path path_;
  const char* begin_;
  size_t size_;
};

}  // namespace rtfx
