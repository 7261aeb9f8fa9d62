// Word errors: Levenshtein distance over words, every edit at cost 1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rtfx {

/// Edits of one utterance or, summed, of a set.
struct EditCounts {
  int64_t substitutions = 0;
  int64_t insertions = 0;
  int64_t deletions = 0;
  int64_t reference_words = 0;
  // Set by count_edits_and_characters() alone. Characters are code points of words; spaces
  // between words do not count.
  int64_t character_errors = 0;
  int64_t reference_characters = 0;
  int64_t unspaced_characters = 0;  // of these, in scripts without spaces between words

  int64_t errors() const { return substitutions + insertions + deletions; }
  /// errors / reference words (may exceed 1); none without reference words.
  std::optional<double> wer() const;
  /// character errors / reference characters; none without reference characters.
  std::optional<double> cer() const;

  EditCounts& operator+=(const EditCounts& other);
  friend EditCounts operator+(EditCounts a, const EditCounts& b) { return a += b; }
  bool operator==(const EditCounts&) const = default;
};

using Words = std::span<const std::string>;

/// Returns the fewest edits that turn `reference` into `hypothesis`. Among these it takes the split
/// with the fewest substitutions (the most words recognised), which is unique. Scorers that weigh a
/// substitution 4 and the others 3 (NIST sclite) report it too. O(R H) time, O(H) memory.
EditCounts count_edits(Words reference, Words hypothesis);

/// count_edits(), and the fewest edits that turn the characters of `reference` into those of
/// `hypothesis` (Myers 1999; Hyyrö 2003): O(R H / 64) time in characters.
EditCounts count_edits_and_characters(Words reference, Words hypothesis);

/// A match or substitution has both words, a deletion the reference's, an insertion the
/// hypothesis's.
struct AlignedWords {
  std::optional<std::string> reference;
  std::optional<std::string> hypothesis;

  bool operator==(const AlignedWords&) const = default;
};

/// The edits that count_edits() counts, word by word. Of several such alignments the one which,
/// followed back from the end, prefers substitution or match, then deletion, then insertion.
/// O(R H) memory, at 2 bits each.
std::vector<AlignedWords> align_words(Words reference, Words hypothesis);

}  // namespace rtfx
