#include "harness/scoring/wer.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "harness/scoring/code_points.h"
#include "models/tokenizers/pieces.h"

namespace rtfx {
namespace {

enum class Step : uint8_t { kPair, kDeletion, kInsertion };

bool fewer(const EditCounts& a, const EditCounts& b) {
  return a.errors() != b.errors() ? a.errors() < b.errors() : a.substitutions < b.substitutions;
}

/// Fills the table of edits row by row, and holds two rows. Calls record(i, j, step) with the last
/// step of the best path to each cell.
template <class Record>
EditCounts fill_table(Words reference, Words hypothesis, Record record) {
  std::vector<EditCounts> above(hypothesis.size() + 1);
  std::vector<EditCounts> row(hypothesis.size() + 1);
  for (size_t i = 0; i <= reference.size(); ++i, std::swap(above, row)) {
    for (size_t j = 0; j <= hypothesis.size(); ++j) {
      if (i == 0 && j == 0) continue;
      std::optional<EditCounts> best;
      Step step{};
      const auto offer = [&](Step offered, const EditCounts& counts) {
        if (best && !fewer(counts, *best))
          return;  // of two equally good steps, the first one stays
        best = counts;
        step = offered;
      };
      if (i > 0 && j > 0) {
        EditCounts counts = above[j - 1];
        counts.substitutions += reference[i - 1] != hypothesis[j - 1];
        offer(Step::kPair, counts);
      }
      if (i > 0) offer(Step::kDeletion, above[j] + EditCounts{.deletions = 1});
      if (j > 0) offer(Step::kInsertion, row[j - 1] + EditCounts{.insertions = 1});
      row[j] = *best;
      record(i, j, step);
    }
  }
  EditCounts counts = above.back();  // the two rows were swapped after the last one
  counts.reference_words = static_cast<int64_t>(reference.size());
  return counts;
}

/// One step for each cell, four in a byte.
class StepTable {
 public:
  StepTable(size_t rows, size_t columns) : columns_(columns), packed_(rows * columns / 4 + 1) {}
  void set(size_t i, size_t j, Step step) {
    const size_t cell = i * columns_ + j;
    packed_[cell / 4] |= static_cast<uint8_t>(static_cast<unsigned>(step) << cell % 4 * 2);
  }
  Step at(size_t i, size_t j) const {
    const size_t cell = i * columns_ + j;
    return static_cast<Step>(packed_[cell / 4] >> cell % 4 * 2 & 3U);
  }

 private:
  size_t columns_;
  std::vector<uint8_t> packed_;
};

}  // namespace

std::optional<double> EditCounts::wer() const {
  if (reference_words == 0) return std::nullopt;
  return static_cast<double>(errors()) / static_cast<double>(reference_words);
}

std::optional<double> EditCounts::cer() const {
  if (reference_characters == 0) return std::nullopt;
  return static_cast<double>(character_errors) / static_cast<double>(reference_characters);
}

EditCounts& EditCounts::operator+=(const EditCounts& other) {
  substitutions += other.substitutions;
  insertions += other.insertions;
  deletions += other.deletions;
  reference_words += other.reference_words;
  character_errors += other.character_errors;
  reference_characters += other.reference_characters;
  unspaced_characters += other.unspaced_characters;
  return *this;
}

EditCounts count_edits(Words reference, Words hypothesis) {
  return fill_table(reference, hypothesis, [](size_t, size_t, Step) {});
}

namespace {

std::u32string characters_of(Words words) {
  std::u32string all;
  for (const std::string& word : words) all += to_code_points(word);
  return all;
}

/// Returns Levenshtein's distance. A column of the table of edits holds differences of neighbours,
/// which are -1, 0 or 1. They take two bits each, and 64 of them are computed at once.
int64_t distance(std::u32string_view pattern, std::u32string_view text) {
  if (pattern.empty()) return static_cast<int64_t>(text.size());
  const size_t blocks = (pattern.size() + 63) / 64;
  // bit i: the pattern has the character at i
  std::unordered_map<char32_t, std::vector<uint64_t>> places;
  for (size_t i = 0; i < pattern.size(); ++i) {
    auto& bits = places[pattern[i]];
    bits.resize(blocks);
    bits[i / 64] |= uint64_t{1} << i % 64;
  }
  struct Block {
    uint64_t up = ~uint64_t{0}, down = 0;  // bit i: row i + 1 is one more, or one less, than row i
  };
  std::vector<Block> column(blocks);
  const std::vector<uint64_t> nowhere(blocks);
  const uint64_t last = uint64_t{1} << (pattern.size() - 1) % 64;
  auto edits = static_cast<int64_t>(pattern.size());
  for (const char32_t c : text) {
    const auto found = places.find(c);
    const std::vector<uint64_t>& equal = found == places.end() ? nowhere : found->second;
    uint64_t more = 1, less = 0;  // how the row above the block differs from the column before
    for (size_t b = 0; b < blocks; ++b) {
      const auto [up, down] = column[b];
      const uint64_t matches = equal[b] | less;
      const uint64_t diagonal = (((matches & up) + up) ^ up) | matches | down;
      uint64_t right_more = down | ~(diagonal | up), right_less = diagonal & up;
      if (b + 1 == blocks)
        edits += static_cast<int64_t>((right_more & last) != 0) -
                 static_cast<int64_t>((right_less & last) != 0);
      const uint64_t next_more = right_more >> 63, next_less = right_less >> 63;
      right_more = right_more << 1 | more;
      right_less = right_less << 1 | less;
      column[b] = {right_less | ~(diagonal | right_more), right_more & diagonal};
      more = next_more;
      less = next_less;
    }
  }
  return edits;
}

}  // namespace

EditCounts count_edits_and_characters(Words reference, Words hypothesis) {
  EditCounts counts = count_edits(reference, hypothesis);
  const std::u32string said = characters_of(reference);
  counts.character_errors = distance(said, characters_of(hypothesis));
  counts.reference_characters = static_cast<int64_t>(said.size());
  counts.unspaced_characters = std::ranges::count_if(said, is_unspaced);
  return counts;
}

std::vector<AlignedWords> align_words(Words reference, Words hypothesis) {
  StepTable steps(reference.size() + 1, hypothesis.size() + 1);
  fill_table(reference, hypothesis, [&](size_t i, size_t j, Step step) { steps.set(i, j, step); });
  std::vector<AlignedWords> pairs;
  for (size_t i = reference.size(), j = hypothesis.size(); i > 0 || j > 0;) {
    const Step step = steps.at(i, j);
    AlignedWords& pair = pairs.emplace_back();
    if (step != Step::kInsertion) pair.reference = reference[--i];
    if (step != Step::kDeletion) pair.hypothesis = hypothesis[--j];
  }
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace rtfx
