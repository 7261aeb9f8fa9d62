// Are boosted words recognised? Counted where the alignment of the word error rate puts them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/scoring/normalize.h"
#include "harness/scoring/wer.h"

namespace rtfx {

/// The list of a decoder (Decoder::boosted_words) as the scorer writes words.
struct BoostedWords {
  std::set<std::string> words;
  int64_t left_out = 0;           // entries of which the scorer makes several words or none
  std::set<std::string> phrases;  // entries of one word or more, with a space between words
  size_t longest = 0;             // of these, in words

  bool empty() const { return words.empty() && left_out == 0; }
};
BoostedWords boosted_words(const std::vector<std::string>& list, const Normalizer& normalizer);

/// Counts of one utterance or, summed, of a set.
struct BoostedCounts {
  int64_t occurrences = 0;   // in the reference
  int64_t recalled = 0;      // those of them that are paired with the same word
  int64_t false_alarms = 0;  // in the hypothesis, where the reference has another word or none

  /// recalled / occurrences; none without an occurrence.
  std::optional<double> recall() const;
  /// recalled / (recalled + false alarms); none where no hypothesis has any of the words.
  std::optional<double> precision() const;

  BoostedCounts& operator+=(const BoostedCounts& other);
  bool operator==(const BoostedCounts&) const = default;
};

/// Counts with align_words(): a boosted word in the place of another one is a miss and a false
/// alarm.
BoostedCounts count_boosted(Words reference, Words hypothesis, const BoostedWords& boosted);

/// Counts phrases of any number of words like NeMo's compute_fscore (2.7.3). A phrase of n words in
/// the reference is a hit if each is paired with an equal word. A phrase of n words in the
/// hypothesis is a false alarm if they are paired with other words. Words that only the other side
/// has are passed over. A single word of the list in the place of another one of the list is no
/// false alarm.
BoostedCounts count_phrases(Words reference, Words hypothesis, const BoostedWords& boosted);

/// 2 recalled / (occurrences + recalled + false alarms), the harmonic mean of recall and precision;
/// none where there is nothing to recall and no false alarm.
std::optional<double> f_score(const BoostedCounts& counts);

}  // namespace rtfx
