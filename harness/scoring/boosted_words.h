// Counts how many boosted words are recognised, by the alignment of the word error rate.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/scoring/normalize.h"
#include "harness/scoring/wer.h"

namespace rtfx {

/// The boosted words of a decoder (Decoder::boosted_words), normalised by the scorer.
struct BoostedWords {
  std::set<std::string> words;
  int64_t left_out = 0;           // entries that the scorer turns into several words or none
  std::set<std::string> phrases;  // entries of one word or more, with a space between words
  size_t longest = 0;             // number of words of the longest phrase

  bool empty() const { return words.empty() && left_out == 0; }
};
BoostedWords boosted_words(const std::vector<std::string>& list, const Normalizer& normalizer);

/// Counts for one utterance, or sums for a set.
struct BoostedCounts {
  int64_t occurrences = 0;   // in the reference
  int64_t recalled = 0;      // occurrences that are paired with an equal word
  int64_t false_alarms = 0;  // words of the hypothesis that are paired with another word or none

  /// Returns recalled / occurrences; none without an occurrence.
  std::optional<double> recall() const;
  /// Returns recalled / (recalled + false alarms); none if no hypothesis has any of the words.
  std::optional<double> precision() const;

  BoostedCounts& operator+=(const BoostedCounts& other);
  bool operator==(const BoostedCounts&) const = default;
};

/// Counts with align_words(). A boosted word in the place of another one is both a miss and a false
/// alarm.
BoostedCounts count_boosted(Words reference, Words hypothesis, const BoostedWords& boosted);

/// Counts phrases of any number of words as NeMo's compute_fscore (2.7.3) does. A phrase of n words
/// in the reference is a hit if each is paired with an equal word. A phrase of n words in the
/// hypothesis is a false alarm if they are paired with other words. Inserted and deleted words are
/// skipped. A listed word in the place of another listed word is no false alarm.
BoostedCounts count_phrases(Words reference, Words hypothesis, const BoostedWords& boosted);

/// Returns 2 recalled / (occurrences + recalled + false alarms), the harmonic mean of recall and
/// precision. None if there are neither occurrences nor false alarms.
std::optional<double> f_score(const BoostedCounts& counts);

}  // namespace rtfx
