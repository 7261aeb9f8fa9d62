// Counts word errors by the Levenshtein distance over words, where each edit costs 1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rtfx {

/// Edits of one utterance, or sums for a set.
struct EditCounts {
  int64_t substitutions = 0;
  int64_t insertions = 0;
  int64_t deletions = 0;
  int64_t reference_words = 0;
  /// Set only by count_edits_and_characters(). Characters are the code points of words; spaces
  /// between words do not count.
  int64_t character_errors = 0;
  int64_t reference_characters = 0;
  int64_t unspaced_characters = 0;  // reference characters in scripts without spaces between words

  int64_t errors() const { return substitutions + insertions + deletions; }
  /// Returns errors / reference words, which may exceed 1. None without reference words.
  std::optional<double> wer() const;
  /// Returns character errors / reference characters. None without reference characters.
  std::optional<double> cer() const;

  EditCounts& operator+=(const EditCounts& other);
  friend EditCounts operator+(EditCounts a, const EditCounts& b) { return a += b; }
  bool operator==(const EditCounts&) const = default;
};

using Words = std::span<const std::string>;

/// Returns the fewest edits that turn `reference` into `hypothesis`. Among these, it takes the
/// split with the fewest substitutions (the most words recognised), which is unique. NIST sclite
/// weighs a substitution 4 and the others 3. So it may match more words at the cost of more edits,
/// and its counts then differ. Takes O(R H) time and O(H) memory.
EditCounts count_edits(Words reference, Words hypothesis);

/// Does the same as count_edits(), and also counts the fewest edits between the characters of both
/// texts (Myers 1999; Hyyrö 2003). That takes O(R H / 64) time in characters.
EditCounts count_edits_and_characters(Words reference, Words hypothesis);

/// A pair of aligned words. A match or substitution has both words, a deletion only that of the
/// reference, and an insertion only that of the hypothesis.
struct AlignedWords {
  std::optional<std::string> reference;
  std::optional<std::string> hypothesis;

  bool operator==(const AlignedWords&) const = default;
};

/// Returns the edits that count_edits() counts, word by word. There may be several such alignments.
/// Followed back from the end, the result prefers a substitution or match, then a deletion, then an
/// insertion. Takes O(R H) memory, at 2 bits each.
std::vector<AlignedWords> align_words(Words reference, Words hypothesis);

}  // namespace rtfx
