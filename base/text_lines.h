// Text files, plain or gzip, read through libarchive: line by line, or whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct archive;

namespace rtfx {

class TextLines {
 public:
  /// Throws UserError when there is no such file or it cannot be read.
  explicit TextLines(const std::filesystem::path& path);
  ~TextLines();

  /// The next line without its end (LF or CR LF), valid until the next call; false behind the last
  /// one. Throws UserError when the file is damaged (a truncated gzip file).
  bool next(std::string_view& line);

  /// The number of the line that next() returned, counted from 1.
  int64_t number() const { return number_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  bool fill();

  std::filesystem::path path_;
  std::unique_ptr<archive, int (*)(archive*)> reader_;
  std::string buffer_;  // what has been read and not handed out: [begin_, end_)
  size_t begin_ = 0, end_ = 0;
  int64_t number_ = 0;
  bool empty_ = false;
};

/// Returns `path`, or `path`.gz where only that file exists.
std::filesystem::path plain_or_gzip(const std::filesystem::path& path);

/// Returns the whole text of plain_or_gzip(path). Throws UserError when there is no such file or
/// when it is damaged (a truncated gzip file).
std::string read_text(const std::filesystem::path& path);

}  // namespace rtfx
