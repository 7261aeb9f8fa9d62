#include "base/files.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/utf8.h"

namespace rtfx {

namespace {

using std::filesystem::path;

bool is_program(const path& file) {
  std::error_code error;
  return std::filesystem::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0;
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

bool has_ending(const path& path, const std::vector<std::string>& endings) {
  std::string name = path.filename().string();
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(endings,
                             [&](const std::string& ending) { return name.ends_with(ending); });
}

void Descriptor::close_now() {
  if (number >= 0) ::close(number);
  number = -1;
}

namespace {

size_t page_size() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& problem) {
    return UserError(path.string(), problem, "check the path and its permissions");
  };
  // Without O_NONBLOCK, open() would wait on a named pipe.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) {
    throw fail(errno == ENOENT ? "no such file"
                               : std::string("cannot be opened: ") + std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.number, &status) != 0) throw fail("cannot be looked at");
  if (S_ISDIR(status.st_mode)) throw fail("is a directory");
  if (!S_ISREG(status.st_mode)) throw fail("is no regular file");
  if (status.st_size == 0) throw fail("is empty");
  const auto size = static_cast<size_t>(status.st_size);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (memory == MAP_FAILED) {
    throw fail(std::string("cannot be mapped into memory: ") + std::strerror(errno));
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const char*>(memory), size));
}

MappedFile::~MappedFile() { ::munmap(const_cast<char*>(begin_), size_); }

void MappedFile::fetch(std::string_view part) const {
#ifdef MADV_POPULATE_READ  // Linux 5.14
  const size_t begin = offset_of(part) / page_size() * page_size();
  const size_t end = offset_of(part) + part.size();
  // The disk reads the next 64 MiB, which are probably needed next, while this part is used.
  constexpr size_t kAhead = size_t{64} << 20;
  advise(begin, std::min(end + kAhead, size_), MADV_WILLNEED);
  // If the system does not support this call, each page is read when it is first looked at.
  advise(begin, end, MADV_POPULATE_READ);
#endif
}

void MappedFile::release(std::string_view part) const {
  const size_t begin = (offset_of(part) + page_size() - 1) / page_size() * page_size();
  const size_t end = (offset_of(part) + part.size()) / page_size() * page_size();
  if (begin < end) advise(begin, end, MADV_DONTNEED);
}

size_t MappedFile::offset_of(std::string_view part) const {
  RTFX_CHECK(part.empty() || (holds(part.data()) && holds(part.data() + part.size() - 1)),
             "not a part of the file");
  return part.empty() ? 0 : static_cast<size_t>(part.data() - begin_);
}

void MappedFile::advise(size_t begin, size_t end, int advice) const {
  ::madvise(const_cast<char*>(begin_) + begin, end - begin, advice);
}

std::string_view without_byte_order_mark(std::string_view text, std::string_view where) {
  constexpr std::string_view kUtf8 = "\xEF\xBB\xBF", kLittleEndian = "\xFF\xFE",
                             kBigEndian = "\xFE\xFF";
  constexpr std::string_view kBigEndian32("\0\0\xFE\xFF", 4);
  if (text.starts_with(kUtf8)) text.remove_prefix(kUtf8.size());
  if (text.starts_with(kLittleEndian) || text.starts_with(kBigEndian) ||
      text.starts_with(kBigEndian32))
    throw UserError(where, "begins with the byte-order mark of UTF-16 or UTF-32",
                    "save it as UTF-8");
  return text;
}

namespace {

constexpr size_t kBlock = 1 << 20;
constexpr size_t kLongestLine = size_t{64} << 20;

/// Returns the text of an error. libarchive gives no text for some damaged files.
std::string reason(archive* reader) {
  const char* const text = archive_error_string(reader);
  return text == nullptr ? "is damaged" : text;
}

/// Opens the file in `reader`; returns false where it is empty.
bool open_text(archive* reader, const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (found.type() == std::filesystem::file_type::not_found)
    throw UserError(path.string(), "no such file", "check the path");
  if (error)
    throw UserError(path.string(), "cannot be opened: " + error.message(),
                    "check the path and its permissions");
  if (std::filesystem::is_directory(found))
    throw UserError(path.string(), "is a directory", "give a file");
  // libarchive reports a file that it may not open and a damaged file by the same kind of error.
  if (access(path.c_str(), R_OK) != 0)
    throw UserError(path.string(), std::string("cannot be opened: ") + std::strerror(errno),
                    "check the path and its permissions");
  archive_read_support_filter_gzip(reader);
  archive_read_support_format_raw(reader);
  archive_read_support_format_empty(reader);
  archive_entry* entry = nullptr;
  int status = archive_read_open_filename(reader, path.c_str(), kBlock);
  if (status == ARCHIVE_OK) status = archive_read_next_header(reader, &entry);
  if (status < ARCHIVE_WARN)
    throw UserError(path.string(), reason(reader), "copy or make the file again");
  return status != ARCHIVE_EOF;
}

}  // namespace

TextLines::TextLines(const std::filesystem::path& path, TextCheck check)
    : path_(path),
      check_(check),
      reader_(archive_read_new(), &archive_read_free),
      buffer_(kBlock, '\0'),
      empty_(!open_text(reader_.get(), path)) {}

TextLines::~TextLines() = default;

/// Reads more bytes behind those in the buffer. Returns false at the end of the file.
bool TextLines::fill() {
  if (empty_) return false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) {
    // A line of zeros can be compressed to a small file, and would fill the memory.
    if (end_ >= kLongestLine)
      throw UserError(fmt::format("{}:{}", path_.string(), number_ + 1),
                      fmt::format("a line of more than {} MiB", kLongestLine >> 20),
                      "give a text file, plain or gzip");
    buffer_.resize(2 * buffer_.size());
  }
  const la_ssize_t got =
      archive_read_data(reader_.get(), buffer_.data() + end_, buffer_.size() - end_);
  if (got < 0) {
    throw UserError(fmt::format("{}:{}", path_.string(), number_ + 1), reason(reader_.get()),
                    "copy or make the file again");
  }
  end_ += static_cast<size_t>(got);
  return got > 0;
}

bool TextLines::next(std::string_view& line) {
  size_t searched = 0;
  const char* end = nullptr;
  for (;;) {
    const char* from = buffer_.data() + begin_ + searched;
    searched = end_ - begin_;
    end = static_cast<const char*>(
        std::memchr(from, '\n', static_cast<size_t>(buffer_.data() + end_ - from)));
    if (end != nullptr || !fill()) break;
  }
  const char* begin = buffer_.data() + begin_;
  if (end == nullptr && begin_ == end_) return false;
  terminated_ = end != nullptr;
  if (!terminated_) end = buffer_.data() + end_;  // the last line may lack its end
  line = {begin, static_cast<size_t>(end - begin)};
  begin_ += line.size() + (terminated_ ? 1 : 0);
  if (line.ends_with('\r')) line.remove_suffix(1);
  ++number_;
  // Joined files may have a byte-order mark in front of a later line, too. No other text begins so.
  const char first = line.empty() ? ' ' : line.front();
  if (first == '\xEF' || first == '\xFE' || first == '\xFF' || first == '\0')
    line = without_byte_order_mark(line, path_.string());
  if (check_ == TextCheck::utf8 && !is_utf8(line))
    require_utf8(line, fmt::format("{}:{}", path_.string(), number_));
  return true;
}

std::filesystem::path plain_or_gzip(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path;
  const std::filesystem::path packed = path.string() + ".gz";
  return std::filesystem::exists(packed, error) ? packed : path;
}

std::string read_text(const std::filesystem::path& path) {
  const std::filesystem::path file = plain_or_gzip(path);
  const std::unique_ptr<archive, int (*)(archive*)> reader(archive_read_new(), &archive_read_free);
  std::string text;
  if (!open_text(reader.get(), file)) return text;
  size_t size = 0;
  for (la_ssize_t got = 1; got > 0; size += static_cast<size_t>(got)) {
    if (text.size() - size < kBlock) text.resize(2 * text.size() + kBlock);
    got = archive_read_data(reader.get(), text.data() + size, text.size() - size);
    if (got < 0)
      throw UserError(file.string(), reason(reader.get()), "copy or make the file again");
  }
  text.resize(size);
  text.erase(0, size - without_byte_order_mark(text, file.string()).size());
  return text;
}

std::string read_bytes(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw UserError(path.string(), "no such file", "check the path");
  }
  if (std::filesystem::is_directory(path)) {
    throw UserError(path.string(), "is a directory, not a file", "name a file in it");
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw UserError(path.string(), "cannot be read", "check its permissions");
  return std::move(text).str();
}

std::string bytes_at(std::istream& file, uint64_t at, size_t count) {
  std::string bytes(count, '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(at));
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

std::string bytes_at(const std::filesystem::path& path, uint64_t at, size_t count) {
  std::ifstream file(path, std::ios::binary);
  return file ? bytes_at(file, at, count) : "";
}

void cannot_write(const std::filesystem::path& path, int error, std::string_view when_full) {
  const bool full = error == ENOSPC || error == EFBIG || error == EDQUOT;
  throw UserError(path.string(), fmt::format("cannot be written: {}", std::strerror(error)),
                  full ? when_full : "check the path and that the folder is writable");
}

int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

void require_regular_or_new(const std::filesystem::path& path) {
  constexpr const char* kRemedy = "name a file, which is made, or replaced if it is there";
  // /dev/stdout may lead to a regular file. It must not be replaced while somebody reads it.
  const std::string name = path.lexically_normal().string();
  if (name.starts_with("/dev/") || name.starts_with("/proc/"))
    throw UserError(path.string(), "is a device, not a regular file", kRemedy);
  struct stat there {};
  if (stat(path.c_str(), &there) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;
    cannot_write(path, errno, "");
  }
  if (S_ISREG(there.st_mode)) return;
  throw UserError(
      path.string(),
      S_ISDIR(there.st_mode) ? "is a folder" : "is a device or pipe, not a regular file", kRemedy);
}

void require_rereadable(const std::filesystem::path& path) {
  struct stat there {};
  if (stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode) || S_ISDIR(there.st_mode)) return;
  throw UserError(path.string(), "is a pipe or device, and it must be read twice",
                  "write it to a file, and give that");
}

void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts) {
  constexpr const char* kWhenFull = "free some space; nothing was changed";
  require_regular_or_new(path);
  std::error_code error;
  // A link stays, and the file that it points to is replaced. The path is made absolute first,
  // since weakly_canonical() of a bare name has no folder.
  const std::filesystem::path to =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  if (error) cannot_write(path, error.value(), kWhenFull);
  std::filesystem::create_directories(to.parent_path(), error);
  if (error) cannot_write(path, error.value(), kWhenFull);
  // The name is unique, so that no two processes or threads write into one file. Processes in two
  // containers may have the same id, hence O_EXCL and the loop. The name does not contain the name
  // of the file, which may already have the greatest length.
  static std::atomic<int64_t> files = 0;
  std::string part;
  int descriptor = -1;
  do {
    part = (to.parent_path() / fmt::format(".rtfx.{}.{}", getpid(), ++files)).string();
    descriptor = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  } while (descriptor < 0 && errno == EEXIST);
  if (descriptor < 0) cannot_write(path, errno, kWhenFull);
  int failed = 0;
  for (const std::string_view bytes : parts)
    if (failed == 0) failed = write_all(descriptor, bytes);
  if (close(descriptor) != 0 && failed == 0) failed = errno;
  if (failed == 0 && std::rename(part.c_str(), to.c_str()) != 0) failed = errno;
  if (failed == 0) return;
  unlink(part.c_str());
  cannot_write(path, failed, kWhenFull);
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  write_file(path, std::span(&contents, 1));
}

}  // namespace rtfx
