// A result as people read it: words with their times in seconds, how sure the model is of them, and
// segments. No tensors, no I/O.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/shared/confidence/confidence.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Stands for a confidence that was not asked for.
inline constexpr double kNoConfidence = std::numeric_limits<double>::quiet_NaN();

struct TimedToken {
  int32_t id = 0;
  std::string piece;  // as the vocabulary spells it
  double start = 0, end = 0;
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

/// A part that was decoded again, since somebody speaks there and the search had found no word.
struct DecodedAgain {
  double start = 0, end = 0;  // seconds
  int64_t words = 0;          // that were found then; 0: the part stays without words
  int64_t decodes = 0;        // further ones that it took
};

/// One line about it, for a person to read.
std::string notice_of(const DecodedAgain& part);

struct TranscriptSection;

struct Transcript {
  std::string text;
  std::vector<TimedWord> words;
  std::vector<TimedToken> tokens;
  std::vector<TimedSegment> segments;
  double score = 0;
  double confidence = kNoConfidence;     // of the utterance
  std::vector<Transcript> alternatives;  // the n-best list, best first; empty where there is none
  std::vector<TranscriptSection> sections;  // of long audio, which has lists for each alone
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
  double audio_seconds = 0;  // nothing ends behind it; 0: not known
  double pause = 1;          // seconds without a word that end a segment
  std::string aggregation;   // of confidences (ConfidenceOptions)
};

/// A token lasts from its frame on. In TDT it lasts its duration, in CTC its run (`evidence.runs`).
/// In RNN-T, and where there is no run, it lasts one frame. A duration of 0 counts as one frame. A
/// word lasts from its first token to the end of its last one that is not punctuation, and ends
/// where the next begins. Words that begin at one frame share it in equal parts. Those that begin
/// behind the end of the audio, or less than a twentieth of a frame before it, share the last frame
/// before that. Words thus are in order, do not overlap, and last longer than 0. A segment ends
/// behind a word with the mark of a sentence's end, and before a pause.
///
/// Words that the search found stand as it found them. Other words are those that the tokens spell.
///
/// `evidence`: of this hypothesis, without those of its list. Without confidences it may be empty.
Transcript transcript_of(const Hypothesis& hypothesis, const TokenEvidence& evidence,
                         const Tokenizer& tokenizer, const TranscriptRules& rules);

/// The number of the first words that no further token can change: `settled` or more, but no more
/// words than there are.
/// `words` are those of a result whose first `stable` tokens stay. A word may go on until the next
/// one has begun. Words without a space between them are divided anew with each token, up to the
/// mark of a sentence's end.
size_t settled_words(const std::vector<TimedWord>& words, size_t settled, int64_t stable);

/// The segments of words in order.
std::vector<TimedSegment> segments_of(const std::vector<TimedWord>& words, double pause);

}  // namespace rtfx
