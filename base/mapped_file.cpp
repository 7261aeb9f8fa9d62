#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

size_t page_size() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

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
  const size_t begin = offset_of(part) / page_size() * page_size();
  const size_t end = offset_of(part) + part.size();
  // The disk goes on reading what probably comes next, while this part is used.
  constexpr size_t kAhead = size_t{64} << 20;
  advise(begin, std::min(end + kAhead, size_), MADV_WILLNEED);
  // Where the system cannot do this, pages come as they are looked at.
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

}  // namespace rtfx
