#include "algorithms/shared/ngram_lm/binary_lm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "algorithms/shared/ngram_lm/arpa.h"
#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

/// The bound of ARPA files in natural logarithms, with room for rounding.
constexpr float kMostBackoff = 3 * ArpaReader::kMostBackoff;

class Check {
 public:
  Check(const NgramArrays& arrays, int64_t vocabulary, int64_t order)
      : arcs_(arrays.arc_to.size(0)),
        states_(arrays.backoff_to.size(0)),
        vocabulary_(vocabulary),
        order_(order),
        arc_to_(data_of<int32_t>(arrays.arc_to)),
        arc_label_(data_of<int32_t>(arrays.arc_label)),
        arc_weight_(data_of<float>(arrays.arc_weight)),
        state_arcs_(data_of<int32_t>(arrays.state_arcs)),
        backoff_to_(data_of<int32_t>(arrays.backoff_to)),
        backoff_weight_(data_of<float>(arrays.backoff_weight)),
        final_weight_(data_of<float>(arrays.final_weight)),
        context_(data_of<int32_t>(arrays.context)) {}

  std::string problem() const {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (order_ < 2 || order_ > NgramLm::kMaxOrder)
      return fmt::format("is of order {}; 2 to {} are supported", order_, NgramLm::kMaxOrder);
    if (states_ < 2 || arcs_ < vocabulary_ || states_ > kMost || arcs_ > kMost)
      return fmt::format("has {} states and {} arcs for {} tokens", states_, arcs_, vocabulary_);
    int64_t arc = 0;  // the first arc that belongs to none of the states so far
    for (int64_t state = 0; state < states_; ++state) {
      const char* const problem = problem_of(state, arc);
      if (problem != nullptr) return fmt::format("state {} {}", state, problem);
    }
    return arc == arcs_ ? "" : fmt::format("arc {} belongs to no state", arc);
  }

 private:
  const char* problem_of(int64_t state, int64_t& arc) const {
    const int32_t context = context_[state], shorter = backoff_to_[state];
    if (state < 2 ? context != state : context < 1 || context >= order_)
      return "has a context of an impossible length";
    // Each back-off shortens the context, so that a search reaches state 0 after `order` of them.
    if (shorter < 0 || shorter >= states_ ||
        (state == 0 ? shorter != 0 : context_[shorter] != context - 1))
      return "backs off to a context that is not one token shorter";
    if (!(std::abs(backoff_weight_[state]) <= kMostBackoff) ||
        (state == 0 && backoff_weight_[0] != 0))
      return "has a back-off weight that is none";
    if (!is_logarithm(final_weight_[state])) return "has a weight for its end that is none";

    const int64_t begin = state_arcs_[2 * state], end = state_arcs_[2 * state + 1];
    const int64_t count = end - begin;
    if (state == 0 && count != vocabulary_) return "has not one arc for each token";
    if (begin < 0 || count < 0 || end > arcs_ || (count > 0 && begin != arc))
      return "has arcs out of bounds or of another state";
    for (int64_t i = begin; i < end; ++i) {
      const int32_t before = i == begin ? -1 : arc_label_[i - 1];
      if (arc_label_[i] <= before || arc_label_[i] >= vocabulary_)
        return "has arcs whose tokens are not in order";
      if (arc_to_[i] < 0 || arc_to_[i] >= states_) return "has an arc to a state that is not there";
      if (!is_logarithm(arc_weight_[i])) return "has an arc whose weight is none";
    }
    arc += count;
    return nullptr;
  }

  /// Accepts the logarithm of 0, and of sums that rounding lifts above 1.
  static bool is_logarithm(float weight) {
    return weight < std::numeric_limits<float>::infinity();  // refuses NaN, too
  }

  int64_t arcs_, states_, vocabulary_, order_;
  const int32_t *arc_to_, *arc_label_;
  const float* arc_weight_;
  const int32_t *state_arcs_, *backoff_to_;
  const float *backoff_weight_, *final_weight_;
  const int32_t* context_;
};

/// Returns the first promise of NgramArrays that these arrays break, such as "state 7 backs off to
/// a context that is not one token shorter", or "" if they keep all. Searches follow the indices of
/// the arrays unchecked. The arrays are on the CPU and have the right sizes and types.
std::string unsoundness(const NgramArrays& arrays, int64_t vocabulary, int64_t order) {
  return Check(arrays, vocabulary, order).problem();
}

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

  int64_t words() const { return 3 * arcs + 6 * states; }  // 4 bytes each
};

HexDigest digest(const std::string& hex) {
  HexDigest digits{};
  std::copy_n(hex.begin(), std::min(hex.size(), digits.size()), digits.begin());
  return digits;
}

std::string_view bytes_of(const at::Tensor& words) {
  return {static_cast<const char*>(words.const_data_ptr()), words.nbytes()};
}

/// Puts all arrays one after the other, as int32.
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
  const int64_t largest = size / 4;  // keeps words() from overflowing
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
