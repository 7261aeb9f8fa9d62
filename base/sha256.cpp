#include "base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <memory>

#include "base/error.h"

namespace rtfx {
namespace {

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    RTFX_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
               "OpenSSL has no SHA-256");
  }
  void add(const char* data, size_t size) { EVP_DigestUpdate(context_.get(), data, size); }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), bytes.data(), &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256(std::string_view bytes) {
  Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.hex();
}

std::string sha256_file(const std::filesystem::path& path) {
  const auto fail = [&](const char* problem) {
    throw UserError(path.string(), problem, "check the path and its permissions");
  };
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot be read");
  Digest digest;
  std::array<char, 1 << 16> buffer{};
  while (in.read(buffer.data(), buffer.size()) || in.gcount() > 0) {
    digest.add(buffer.data(), static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) fail("cannot be read to its end");  // for example a folder, which can be opened
  return digest.hex();
}

}  // namespace rtfx
