// Files that are found by a pattern, mapped into memory, read line by line, or written whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct archive;

namespace rtfx {

/// Returns the path of the program `name` in the folders of PATH. Otherwise returns the last
/// program that matches the first pattern with any match. Returns an empty path if there is none.
std::filesystem::path find_program(const std::string& name, std::span<const char* const> patterns);

/// Returns the existing files that match the shell pattern (`*`, `?`, `[...]`), sorted by name.
std::vector<std::filesystem::path> files_like(const std::string& pattern);

/// Returns whether the name of a file, in any case, ends in one of the `endings`, which are lower
/// case.
bool has_ending(const std::filesystem::path& path, const std::vector<std::string>& endings);

/// Owns a file descriptor, and closes it when it is destroyed.
struct Descriptor {
  Descriptor() = default;
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() { close_now(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void close_now();

  int number = -1;  // negative: none
};

/// A file that is mapped into memory. The system reads a page when the page is first looked at. If
/// somebody shortens the file meanwhile, SIGBUS ends this process (harness/machine/sudden_end.h
/// reports it). Replacing the file by another, as `mv` does, changes nothing.
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

  /// Brings the pages of `part` into memory at once. This costs less than reading each page when it
  /// is first looked at.
  void fetch(std::string_view part) const;

  /// Gives back the memory of whole pages within `part` of bytes(). The system reads them again
  /// from the file when somebody looks at them later.
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

/// Returns `text` without the UTF-8 byte-order mark at its beginning, which some editors write. All
/// readers of text call it. Throws UserError(where) for the mark of UTF-16 or UTF-32.
std::string_view without_byte_order_mark(std::string_view text, std::string_view where);

/// The check that TextLines does on a text. Readers of JSON need none, since the parser has its
/// own.
enum class TextCheck : uint8_t { utf8, none };

/// Reads a text file, plain or gzip, line by line through libarchive.
class TextLines {
 public:
  /// Throws UserError when there is no such file or it cannot be read.
  explicit TextLines(const std::filesystem::path& path, TextCheck check = TextCheck::utf8);
  ~TextLines();

  /// Reads the next line into `line`, without its end (LF or CR LF) and without a byte-order mark.
  /// The line is valid until the next call. Returns false behind the last line. Throws UserError
  /// when the file is damaged (a truncated gzip file). Throws UserError with file and line for a
  /// line of more than 64 MiB and for text that is not UTF-8.
  bool next(std::string_view& line);

  /// Returns the number of the line that next() returned, counted from 1.
  int64_t number() const { return number_; }
  /// Returns whether the line that next() returned has a line end, which the last line may lack.
  bool is_terminated() const { return terminated_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  bool fill();

  std::filesystem::path path_;
  TextCheck check_;
  std::unique_ptr<archive, int (*)(archive*)> reader_;
  std::string buffer_;  // bytes that were read and not handed out: [begin_, end_)
  size_t begin_ = 0, end_ = 0;
  int64_t number_ = 0;
  bool empty_ = false, terminated_ = true;
};

/// Returns `path`, or `path`.gz where only that file exists.
std::filesystem::path plain_or_gzip(const std::filesystem::path& path);

/// Returns the whole text of plain_or_gzip(path) without a byte-order mark. Throws UserError when
/// there is no such file or when it is damaged (a truncated gzip file).
std::string read_text(const std::filesystem::path& path);

/// Returns a whole file, or what a pipe delivers, as it is. Throws UserError for a missing file, a
/// directory, or a file that cannot be read.
std::string read_bytes(const std::filesystem::path& path);

/// Returns `count` bytes of a file from byte `at` on, and fewer only at its end. Returns none where
/// the file cannot be read. The stream may have reached the end of its file before.
std::string bytes_at(std::istream& file, uint64_t at, size_t count);
std::string bytes_at(const std::filesystem::path& path, uint64_t at, size_t count);

/// Throws UserError where `path` exists and is no regular file but a folder, a device or a pipe.
/// Also throws it for every path below /dev and /proc. Follows links.
void require_regular_or_new(const std::filesystem::path& path);

/// Throws UserError where `path` is a pipe or a device. Readers that open a file twice call this.
void require_rereadable(const std::filesystem::path& path);

/// Writes a file of all `parts`, one after the other. The file is then there whole, or still as it
/// was before: the parts are written beside it under another name, which is then moved to `path`.
/// Makes the folder. Throws UserError where `path` is no regular file, the folder is not writable,
/// or the disk is full.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);
void write_file(const std::filesystem::path& path, std::string_view contents);

/// Calls write(2) until all bytes are written. Returns 0 when done, otherwise errno.
int write_all(int descriptor, std::string_view bytes);

/// Throws the UserError "cannot be written: <reason>". The remedy is `when_full` if the disk or the
/// quota is full, otherwise to check the path.
[[noreturn]] void cannot_write(const std::filesystem::path& path, int error,
                               std::string_view when_full);

}  // namespace rtfx
