#include "base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace rtfx {

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
  // /dev/stdout may lead to a regular file, which is not to be replaced under whoever reads it.
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
  // A name of its own, so that two processes do not write into one file.
  const std::string part = fmt::format("{}.{}", to.string(), getpid());
  const int descriptor = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
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
