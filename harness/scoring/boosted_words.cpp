#include "harness/scoring/boosted_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace rtfx {
namespace {

using Word = std::optional<std::string> AlignedWords::*;

/// Calls visit(phrase, its counterparts) for each `count` consecutive words of one side.
template <class Visit>
void for_each_phrase(const std::vector<AlignedWords>& pairs, Word side, Word other, size_t count,
                     const Visit& visit) {
  std::vector<const AlignedWords*> said;
  for (const AlignedWords& pair : pairs)
    if (pair.*side) said.push_back(&pair);
  for (size_t first = 0; first + count <= said.size(); ++first) {
    std::string phrase, paired;
    for (size_t i = first; i < first + count; ++i) {
      const char* const space = i == first ? "" : " ";
      phrase += space + *(said[i]->*side);
      paired += space + (said[i]->*other).value_or("");
    }
    visit(phrase, paired);
  }
}

std::optional<double> share(int64_t part, int64_t all) {
  if (all == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

BoostedWords boosted_words(const std::vector<std::string>& list, const Normalizer& normalizer) {
  BoostedWords boosted;
  for (const std::string& entry : list) {
    const std::vector<std::string> words = normalizer.words(entry);
    if (!words.empty()) boosted.phrases.insert(fmt::format("{}", fmt::join(words, " ")));
    boosted.longest = std::max(boosted.longest, words.size());
    if (words.size() == 1) {
      boosted.words.insert(words.front());
    } else {
      ++boosted.left_out;
    }
  }
  return boosted;
}

std::optional<double> BoostedCounts::recall() const { return share(recalled, occurrences); }

std::optional<double> BoostedCounts::precision() const {
  return share(recalled, recalled + false_alarms);
}

BoostedCounts& BoostedCounts::operator+=(const BoostedCounts& other) {
  occurrences += other.occurrences;
  recalled += other.recalled;
  false_alarms += other.false_alarms;
  return *this;
}

BoostedCounts count_boosted(Words reference, Words hypothesis, const BoostedWords& boosted) {
  const auto is_boosted = [&](const std::optional<std::string>& word) {
    return word && boosted.words.contains(*word);
  };
  BoostedCounts counts;
  for (const AlignedWords& pair : align_words(reference, hypothesis)) {
    const bool match = pair.reference == pair.hypothesis;
    counts.occurrences += is_boosted(pair.reference);
    counts.recalled += match && is_boosted(pair.reference);
    counts.false_alarms += !match && is_boosted(pair.hypothesis);
  }
  return counts;
}

BoostedCounts count_phrases(Words reference, Words hypothesis, const BoostedWords& boosted) {
  const auto pairs = align_words(reference, hypothesis);
  BoostedCounts counts;
  const Word said = &AlignedWords::reference, heard = &AlignedWords::hypothesis;
  for (size_t count = 1; count <= boosted.longest; ++count) {
    for_each_phrase(pairs, said, heard, count, [&](const auto& phrase, const auto& paired) {
      if (!boosted.phrases.contains(phrase)) return;
      ++counts.occurrences;
      counts.recalled += phrase == paired;
    });
    for_each_phrase(pairs, heard, said, count, [&](const auto& phrase, const auto& paired) {
      const bool other = count == 1 ? !boosted.phrases.contains(paired) : phrase != paired;
      counts.false_alarms += other && boosted.phrases.contains(phrase);
    });
  }
  return counts;
}

std::optional<double> f_score(const BoostedCounts& counts) {
  return share(2 * counts.recalled, counts.occurrences + counts.recalled + counts.false_alarms);
}

}  // namespace rtfx
