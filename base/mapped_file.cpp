#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace rtfx {
namespace {

/// Closes the descriptor; the mapping outlives it.
struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number;
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& problem) {
    return UserError(path.string(), problem, "check the path and its permissions");
  };
  // Without O_NONBLOCK a named pipe would be waited for.
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
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t begin = from / page * page, end = from + part.size();
  // The disk goes on reading what probably comes next, while this part is used.
  constexpr uintptr_t kAhead = uintptr_t{64} << 20;
  const uintptr_t last = reinterpret_cast<uintptr_t>(begin_) + size_;
  ::madvise(reinterpret_cast<void*>(begin), std::min(end + kAhead, last) - begin, MADV_WILLNEED);
  // Where the system cannot do this, pages come as they are looked at.
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
#endif
}

void MappedFile::release(std::string_view part) const {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t begin = (from + page - 1) / page * page;
  const uintptr_t end = (from + part.size()) / page * page;
  RTFX_CHECK(part.empty() || (holds(part.data()) && holds(part.data() + part.size() - 1)),
             "not a part of the file");
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace rtfx
