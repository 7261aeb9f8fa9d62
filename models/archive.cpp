#include "models/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <memory>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr const char* kRemedy = "download or copy the checkpoint again";

void check_is_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path))
    throw UserError(path.string(), "no such file", "check the path");
  if (std::filesystem::is_directory(path)) {
    throw UserError(path.string(), "is a directory", "give the .nemo file itself");
  }
}

std::string read_member(archive* reader, archive_entry* entry, const std::string& where) {
  const auto announced = static_cast<size_t>(archive_entry_size(entry));
  std::string bytes(announced, '\0');
  size_t filled = 0;
  while (filled < announced) {
    const la_ssize_t got = archive_read_data(reader, bytes.data() + filled, announced - filled);
    if (got < 0) throw UserError(where, archive_error_string(reader), kRemedy);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  if (filled != announced) {
    throw UserError(where, fmt::format("truncated: {} of {} bytes", filled, announced), kRemedy);
  }
  return bytes;
}

}  // namespace

std::map<std::string, std::string> read_archive(
    const std::filesystem::path& path, const std::function<bool(std::string_view)>& wanted) {
  check_is_file(path);
  const std::unique_ptr<archive, decltype(&archive_read_free)> reader(archive_read_new(),
                                                                      &archive_read_free);
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_format_tar(reader.get());
  constexpr size_t kBlock = 1 << 20;
  if (archive_read_open_filename(reader.get(), path.c_str(), kBlock) != ARCHIVE_OK) {
    throw UserError(path.string(),
                    fmt::format("not a .nemo archive ({})", archive_error_string(reader.get())),
                    "a .nemo file is a tar archive, plain or gzip");
  }
  std::map<std::string, std::string> members;
  archive_entry* entry = nullptr;
  for (;;) {
    const int status = archive_read_next_header(reader.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    if (status < ARCHIVE_WARN) {
      throw UserError(path.string(), archive_error_string(reader.get()), kRemedy);
    }
    const std::string name = std::filesystem::path(archive_entry_pathname(entry)).filename();
    if (archive_entry_filetype(entry) == AE_IFREG && wanted(name)) {
      members[name] = read_member(reader.get(), entry, path.string() + ":" + name);
    }
  }
  return members;
}

}  // namespace rtfx
