#include "algorithms/shared/ngram_lm/binary_lm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "algorithms/shared/ngram_lm/soundness.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/sha256.h"

namespace rtfx {
namespace {

constexpr std::array<char, 8> kMagic = {'n', 'g', 'p', 'u', 'l', 'm', '\r', '\n'};
constexpr int32_t kVersion = 1;
constexpr const char* kRemedy = "delete it; it is made again from the ARPA file";
static_assert(std::endian::native == std::endian::little);

using HexDigest = std::array<char, 64>;

struct Header {
  std::array<char, 8> magic = kMagic;
  int32_t version = kVersion;
  int32_t order = 0;
  int64_t vocabulary = 0, arcs = 0, states = 0;
  HexDigest source{}, arrays{};

  int64_t words() const { return 3 * arcs + 6 * states; }  // of 4 bytes
};

HexDigest digest(const std::string& hex) {
  HexDigest digits{};
  std::copy_n(hex.begin(), std::min(hex.size(), digits.size()), digits.begin());
  return digits;
}

std::string_view bytes_of(const at::Tensor& words) {
  return {static_cast<const char*>(words.const_data_ptr()), words.nbytes()};
}

/// All arrays one after the other, as int32.
at::Tensor pack(const NgramArrays& a) {
  const auto ints = [](const at::Tensor& t) { return t.view(at::kInt).reshape(-1); };
  return at::cat({ints(a.arc_to), ints(a.arc_label), ints(a.arc_weight), ints(a.state_arcs),
                  ints(a.backoff_to), ints(a.backoff_weight), ints(a.final_weight),
                  ints(a.context)});
}

NgramArrays unpack(const at::Tensor& words, int64_t arcs, int64_t states) {
  int64_t begin = 0;
  const auto next = [&](int64_t size, at::ScalarType dtype) {
    begin += size;
    return words.narrow(0, begin - size, size).view(dtype);
  };
  NgramArrays a;
  a.arc_to = next(arcs, at::kInt);
  a.arc_label = next(arcs, at::kInt);
  a.arc_weight = next(arcs, at::kFloat);
  a.state_arcs = next(2 * states, at::kInt).view({states, 2});
  a.backoff_to = next(states, at::kInt);
  a.backoff_weight = next(states, at::kFloat);
  a.final_weight = next(states, at::kFloat);
  a.context = next(states, at::kInt);
  return a;
}

}  // namespace

std::filesystem::path binary_copy_of(const std::filesystem::path& arpa) {
  return arpa.string() + ".ngpulm";
}

bool is_binary_lm(const std::filesystem::path& path) {
  std::array<char, 8> head{};
  std::ifstream in(path, std::ios::binary);
  return in.read(head.data(), head.size()) && head == kMagic;
}

NgramLm read_binary_lm(const std::filesystem::path& path, int64_t vocabulary,
                       const std::string& source_sha256, int64_t memory_limit) {
  const bool is_copy = !source_sha256.empty();
  const auto fail = [&](const std::string& problem, const std::string& remedy = kRemedy) {
    throw UserError(path.string(), problem, is_copy ? "" : remedy);
  };
  const auto file = MappedFile::open(path);
  const std::string_view bytes = file->bytes();
  Header header;
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof(header)));
  if (bytes.size() < sizeof(header) || header.magic != kMagic) fail("is no binary language model");
  if (header.version != kVersion) fail(fmt::format("is of version {}", header.version));
  if (is_copy && header.source != digest(source_sha256)) fail("was made from another file");
  if (header.vocabulary != vocabulary) {
    fail(fmt::format("was made for {} tokens, the acoustic model has {}", header.vocabulary,
                     vocabulary),
         "use a language model made with this model's tokenizer");
  }
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t largest = size / 4;  // keeps the sum below within bounds
  if (header.arcs <= 0 || header.states <= 0 || header.arcs > largest || header.states > largest ||
      size != static_cast<int64_t>(sizeof(header)) + 4 * header.words()) {
    fail("is not of the size that its header says");
  }
  check_lm_size(path.string(), header.arcs, header.states, memory_limit);
  const at::Tensor words = at::empty({header.words()}, at::kInt);
  std::memcpy(words.mutable_data_ptr(), bytes.data() + sizeof(header), words.nbytes());
  if (digest(sha256(bytes_of(words))) != header.arrays) fail("is damaged");
  NgramArrays arrays = unpack(words, header.arcs, header.states);
  const std::string problem = unsoundness(arrays, vocabulary, header.order);
  if (!problem.empty()) fail(problem);
  return {std::move(arrays), vocabulary, header.order};
}

void write_binary_lm(const NgramLm& lm, const std::filesystem::path& path,
                     const std::string& source_sha256) {
  const at::Tensor words = pack(lm.arrays());
  Header header;
  header.order = static_cast<int32_t>(lm.order());
  header.vocabulary = lm.vocabulary();
  header.arcs = lm.arrays().arc_to.size(0);
  header.states = lm.arrays().backoff_to.size(0);
  header.source = digest(source_sha256);
  header.arrays = digest(sha256(bytes_of(words)));
  const std::string_view head(reinterpret_cast<const char*>(&header), sizeof(header));
  write_file(path, std::array{head, bytes_of(words)});
}

}  // namespace rtfx
