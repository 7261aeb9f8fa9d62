// A result in the form in which people read it: words with their times in seconds, confidences, and
// segments. It has no tensors and does no I/O.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/shared/confidence/confidence.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// The value where no confidence was requested.
inline constexpr double kNoConfidence = std::numeric_limits<double>::quiet_NaN();

struct TimedToken {
  int32_t id = 0;
  std::string piece;          // in the vocabulary's spelling
  double start = 0, end = 0;  // seconds
  double confidence = kNoConfidence;
};

struct TimedWord {
  std::string text;
  double start = 0, end = 0;  // seconds
  double confidence = kNoConfidence;
  size_t first_token = 0, tokens = 0;
  bool joined = false;  // no space stands between it and the word before
};

/// Words [first, first + count), spoken together.
struct TimedSegment {
  size_t first = 0, count = 0;
};

/// A part that was decoded again because somebody speaks there and the search had found no word.
struct DecodedAgain {
  double start = 0, end = 0;  // seconds
  int64_t words = 0;          // words found then; 0 = the part stays without words
  int64_t decodes = 0;        // number of additional decodes
};

/// Returns one line about the part, for a person to read.
std::string notice_of(const DecodedAgain& part);

struct TranscriptSection;

struct Transcript {
  std::string text;
  std::vector<TimedWord> words;
  std::vector<TimedToken> tokens;
  std::vector<TimedSegment> segments;
  double score = 0;
  double confidence = kNoConfidence;        // confidence of the utterance
  std::vector<Transcript> alternatives;     // the n-best list, best first, or empty
  std::vector<TranscriptSection> sections;  // of long audio, which has an n-best list for each
  std::vector<DecodedAgain> decoded_again;  // in order
};

/// A part of long audio that was searched by itself.
struct TranscriptSection {
  double start = 0, end = 0;  // seconds
  std::vector<Transcript> alternatives;
};

/// Settings that turn encoder frames into seconds, and end segments.
struct TranscriptRules {
  double frame_seconds = 0;
  double audio_seconds = 0;  // no word ends after it; 0 = not known
  double pause = 1;          // seconds without a word that end a segment
  std::string aggregation;   // aggregation of confidences (ConfidenceOptions)
};

/// Returns the transcript of a hypothesis.
///
/// A token begins at its frame. In TDT it lasts its duration, in CTC its run (`evidence.runs`). In
/// RNN-T, and where there is no run, it lasts one frame. A duration of 0 counts as one frame.
///
/// A word lasts from its first token to the end of its last one that is not punctuation, and ends
/// where the next word begins. Words that begin at the same frame share it in equal parts. Words
/// that begin after the end of the audio, or less than a twentieth of a frame before it, share the
/// last frame before that. Words are thus in order, do not overlap, and last longer than 0.
///
/// A segment ends after a word with the mark of a sentence's end, and before a pause.
///
/// Words that the search found are taken as they are. Other words are those that the tokens spell.
/// `evidence` belongs to this hypothesis and not to the n-best list. Without confidences it may be
/// empty.
Transcript transcript_of(const Hypothesis& hypothesis, const TokenEvidence& evidence,
                         const Tokenizer& tokenizer, const TranscriptRules& rules);

/// Returns the number of first words that no further token can change. It is at least `settled`,
/// but not more than the number of words. `words` are those of a result whose first `stable` tokens
/// do not change.
///
/// A word may go on until the next one has begun. Words without a space between them are divided
/// anew with each token, up to the mark of a sentence's end.
size_t settled_words(const std::vector<TimedWord>& words, size_t settled, int64_t stable);

/// Returns the segments of words, in order.
std::vector<TimedSegment> segments_of(const std::vector<TimedWord>& words, double pause);

}  // namespace rtfx
