// Damaged copies of a file's bytes, the same ones for the same seed.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rtfx {

inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("no file " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A file in memory that has a path, for readers that need one.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : file_(::memfd_create("mutation", 0)) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t wrote = ::write(file_, bytes.data() + at, bytes.size() - at);
      if (wrote <= 0) throw std::runtime_error("cannot write to memory");
      at += static_cast<size_t>(wrote);
    }
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

class Mutator {
 public:
  /// Puts three of four changes into `structure`, the (begin, end) of the parts that are not mere
  /// numbers.
  Mutator(uint64_t seed, std::vector<std::pair<size_t, size_t>> structure)
      : random_(seed), structure_(std::move(structure)) {}

  std::string operator()(std::string bytes) {
    for (size_t changes = 1 + below(3); changes-- > 0;) change(bytes);
    return bytes;
  }

  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  size_t place(size_t size) {
    if (structure_.empty() || below(4) == 0) return below(size);
    const auto& [begin, end] = structure_[below(structure_.size())];
    return std::min(begin + below(end - begin), size - 1);
  }

  void change(std::string& bytes) {
    if (bytes.empty()) return;
    const size_t at = place(bytes.size());
    static constexpr std::array<uint64_t, 8> kExtremes = {
        0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff};
    switch (below(8)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, 1 + below(16));
        break;
      case 4:
        bytes.insert(at, std::string(1 + below(16), static_cast<char>(below(256))));
        break;
      case 5: {  // an integer of four or eight bytes
        const uint64_t value = kExtremes[below(kExtremes.size())];
        const size_t size = std::min<size_t>(below(2) == 0 ? 4 : 8, bytes.size() - at);
        std::memcpy(bytes.data() + at, &value, size);
        break;
      }
      case 6: {  // copies a part to another place
        const std::string part = bytes.substr(place(bytes.size()), 1 + below(64));
        bytes.replace(at, std::min(part.size(), bytes.size() - at), part);
        break;
      }
      default:
        bytes[at] = "0123456789{}[]\":,-.eE \n"[below(23)];  // characters with a meaning in texts
    }
  }

  std::mt19937_64 random_;
  std::vector<std::pair<size_t, size_t>> structure_;
};

}  // namespace rtfx
