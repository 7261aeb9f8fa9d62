#include "base/text_lines.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <cstring>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr size_t kBlock = 1 << 20;
constexpr size_t kLongestLine = size_t{64} << 20;

/// libarchive gives no text for some damaged files.
std::string reason(archive* reader) {
  const char* const text = archive_error_string(reader);
  return text == nullptr ? "is damaged" : text;
}

/// Opens the file in `reader`; returns false where it is empty.
bool open_text(archive* reader, const std::filesystem::path& path) {
  if (!std::filesystem::exists(path))
    throw UserError(path.string(), "no such file", "check the path");
  if (std::filesystem::is_directory(path))
    throw UserError(path.string(), "is a directory", "give a file");
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

TextLines::TextLines(const std::filesystem::path& path)
    : path_(path),
      reader_(archive_read_new(), &archive_read_free),
      buffer_(kBlock, '\0'),
      empty_(!open_text(reader_.get(), path)) {}

TextLines::~TextLines() = default;

/// Reads on behind what is there; false at the end of the file.
bool TextLines::fill() {
  if (empty_) return false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) {
    // A file of zeros that was packed small would fill the memory.
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
  const bool terminated = end != nullptr;
  if (!terminated) end = buffer_.data() + end_;  // the last line may lack its end
  line = {begin, static_cast<size_t>(end - begin)};
  begin_ += line.size() + (terminated ? 1 : 0);
  if (line.ends_with('\r')) line.remove_suffix(1);
  ++number_;
  return true;
}

std::filesystem::path plain_or_gzip(const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) return path;
  const std::filesystem::path packed = path.string() + ".gz";
  return std::filesystem::exists(packed) ? packed : path;
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
  return text;
}

}  // namespace rtfx
