#include "harness/scoring/boosted_words.h"

#include <nlohmann/json.hpp>

namespace rtfx {
namespace {

std::optional<double> share(int64_t part, int64_t all) {
  if (all == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

BoostedWords boosted_words(const std::vector<std::string>& list, const Normalizer& normalizer) {
  BoostedWords boosted;
  for (const std::string& entry : list) {
    const std::vector<std::string> words = normalizer.words(entry);
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

nlohmann::json to_json(const BoostedCounts& counts) {
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  return {{"occurrences", counts.occurrences},
          {"recalled", counts.recalled},
          {"false_alarms", counts.false_alarms},
          {"recall", number(counts.recall())},
          {"precision", number(counts.precision())}};
}

}  // namespace rtfx
