#include "harness/scoring/wer.h"

#include <algorithm>
#include <utility>

namespace rtfx {
namespace {

enum class Step : uint8_t { kPair, kDeletion, kInsertion };

bool fewer(const EditCounts& a, const EditCounts& b) {
  return a.errors() != b.errors() ? a.errors() < b.errors() : a.substitutions < b.substitutions;
}

/// Fills the table of edits row by row, holding two rows; record(i, j, step) is called
/// with the last step of the best path to each cell.
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
        if (best && !fewer(counts, *best)) return;  // of two equally good steps the first one stays
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

/// One step per cell, four to a byte.
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

EditCounts& EditCounts::operator+=(const EditCounts& other) {
  substitutions += other.substitutions;
  insertions += other.insertions;
  deletions += other.deletions;
  reference_words += other.reference_words;
  return *this;
}

EditCounts count_edits(Words reference, Words hypothesis) {
  return fill_table(reference, hypothesis, [](size_t, size_t, Step) {});
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
