// Tests of damaged language models. Each model that can still be read must answer for every state
// and token.
#include <ATen/ATen.h>

#include <cstring>

#include "algorithms/shared/ngram_lm/load_ngram_lm.h"
#include "base/sha256.h"
#include "tests/mutations/mutate.h"
#include "tests/support/gzip.h"
#include "tests/support/ngram_table.h"

namespace rtfx {
namespace {

constexpr int64_t kVocabulary = 9;

std::string arpa() {
  std::mt19937 random(3);
  return to_arpa(test::random_ngrams(random, 3, kVocabulary), test::TokenForm::number, random);
}

void use(const std::string& bytes) {
  const MemoryFile file(bytes);
  const NgramLm lm = load_ngram_lm(file.path(), kVocabulary, {.memory_limit = 1 << 24});
  const at::Tensor states = at::arange(lm.arrays().context.size(0), at::kInt);
  const NgramLm::Step all = lm.advance(states);
  ASSERT_FALSE(all.scores.isnan().any().item<bool>());
  lm.next_states(states, at::full({states.size(0)}, kVocabulary - 1, at::kLong));
  lm.final_scores(states);
}

TEST(ArpaMutation, IsReadOrRefused) {
  const Counts counts = mutate(arpa(), {}, 2'000, &use);
  EXPECT_GT(counts.read, scaled(50));
  EXPECT_GT(counts.refused, scaled(1000));
}

TEST(ArpaMutation, PackedIsReadOrRefused) {
  EXPECT_GT(mutate(test::gzip(arpa()), {}, 2'000, &use).refused, scaled(1000));
}

std::string binary_lm() {
  const auto file = std::filesystem::path(::testing::TempDir()) / fmt::format("lm.{}", ::getpid());
  const auto copy = file.string() + ".ngpulm";
  std::ofstream(file) << arpa();
  load_ngram_lm(file, kVocabulary, {.cache = true});
  const std::string bytes = file_bytes(copy);
  std::filesystem::remove(file);
  std::filesystem::remove(copy);
  return bytes;
}

TEST(BinaryLmMutation, IsReadOrRefused) {
  EXPECT_GT(mutate(binary_lm(), {{0, 168}}, 5'000, &use).refused, scaled(1000));
}

/// The checksum fits the damaged body, so that only checks of the values can refuse it.
TEST(BinaryLmMutation, WithItsChecksumIsReadOrRefused) {
  constexpr size_t kChecksum = 104, kBody = 168;
  const Counts counts = mutate(binary_lm(), {{8, 40}}, 20'000, &use, [](std::string& bytes) {
    if (bytes.size() < kBody) return;
    const std::string checksum = sha256(std::string_view(bytes).substr(kBody));
    std::memcpy(bytes.data() + kChecksum, checksum.data(), kBody - kChecksum);
  });
  EXPECT_GT(counts.read, scaled(100));
  EXPECT_GT(counts.refused, scaled(1000));
}

}  // namespace
}  // namespace rtfx
