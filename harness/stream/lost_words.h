// Counts words that are lost when an utterance is streamed. Tells whether they are lost at seams,
// where one step of the stream ends and the next one begins.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/scoring/normalize.h"
#include "speech/transcript/transcript.h"

namespace rtfx {

/// A word is at a seam if any part of it is within so many seconds of the border between two steps.
/// This is three encoder frames of 80 ms.
inline constexpr double kSeamSeconds = 0.24;

struct LostWords {
  int64_t words = 0, at_seams = 0;      // of whole utterances
  int64_t lost = 0, lost_at_seams = 0;  // words of the whole utterances that the streams lack

  LostWords& operator+=(const LostWords& other);
  bool operator==(const LostWords&) const = default;
};

/// Normalises each word by itself, so that it keeps its time. Some words become empty, and are left
/// out.
std::vector<TimedWord> normalized_words(const std::vector<TimedWord>& words,
                                        const Normalizer& normalizer);

/// Aligns the words of an utterance with the words of its stream by align_words(). A word is lost
/// if the stream has no word in its place. A substituted word is not lost. `borders` are the times
/// between the steps of the stream, in seconds, ascending.
LostWords count_lost_words(const std::vector<TimedWord>& whole,
                           const std::vector<TimedWord>& streamed,
                           const std::vector<double>& borders);

}  // namespace rtfx
