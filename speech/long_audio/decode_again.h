// Decodes parts again in which somebody speaks and the search found no words
// (speech/pipeline/wordless_speech.h). Chooses the pieces of audio and the result that is kept.
//
// A model may stay on blank from a fresh state too, but only for windows of some lengths. So each
// part is decoded at most twice more, each time cut in another way:
//
//   1. pieces of at most 10 s, with 1 s of audio on either side
//   2. pieces of at most 5 s, with 0.5 s on either side
//
// Pieces end at the quietest place. Where the recording has no audio on a side, silence takes its
// place. The second cut is tried in two cases only. The first one found no word at all, or it left
// a run of speech without words of at least half the length that a part needs.
//
// A result counts if it has words and the mean confidence of its tokens is at least
// kLeastConfidence. This is the confidence by the default measure (ConfidenceOptions), whichever
// measure is printed. If two results count, the one with more words is kept, or the first if they
// have equally many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/shared/confidence/confidence.h"
#include "models/tokenizers/tokenizer.h"
#include "speech/pipeline/wordless_speech.h"

namespace rtfx {

constexpr double kLeastConfidence = 0.1;  // from 0 (uniform) to 1 (certain)
constexpr int kMostDecodesAgain = 2;

/// The audio to examine. Samples must outlive DecodeAgain.
struct HeardAudio {
  std::span<const float> samples;
  size_t block = 0;   // samples
  size_t before = 0;  // blocks of `samples` before those that are searched for parts
};

/// A piece of audio that is decoded by itself.
struct AgainPiece {
  size_t part = 0, number = 0;  // number of the part, and of the piece in it
  BlockRange own;               // tokens in these blocks are kept
  int64_t context = 0;          // blocks before and after its own
  std::vector<float> samples;   // samples of contexts and own blocks
};

/// Tokens and their evidence, which may be empty.
struct FoundTokens {
  Hypothesis hypothesis;
  TokenEvidence evidence;
  std::vector<double> judged;  // confidence of each token, which decides whether the result counts
};

struct AgainPart : WordlessPart {
  FoundTokens found;  // frames are blocks
};

class DecodeAgain {
 public:
  /// `levels` are those of the blocks that are searched for parts. `token_blocks` has the block of
  /// each token of the first result, ascending. `tokenizer` must outlive this.
  DecodeAgain(const HeardAudio& audio, std::vector<float> levels, const LevelHistogram& heard,
              std::span<const size_t> token_blocks, const WordlessRule& rule,
              const Tokenizer& tokenizer);

  /// Returns the pieces to decode next. The list is empty when all parts are done. It is also empty
  /// until take() was called for all pieces of a part.
  std::vector<AgainPiece> next();
  /// Takes the result of a piece. Its frames count from the first own block of the piece. If
  /// `found.judged` is empty, the result counts as confident.
  void take(const AgainPiece& piece, FoundTokens found);
  /// Returns whether there is no part to decode again, and no piece to wait for.
  bool done() const;

  const std::vector<AgainPart>& parts() const { return parts_; }

 private:
  struct Attempt {
    std::vector<FoundTokens> pieces;  // in order of their numbers
    size_t missing = 0;
    bool wanted = true;  // next() has to begin it
  };
  void judge(AgainPart& part, Attempt& attempt);

  HeardAudio audio_;
  std::vector<float> levels_;
  LevelHistogram heard_;
  WordlessRule rule_;
  const Tokenizer& tokenizer_;
  std::vector<AgainPart> parts_;
  std::vector<Attempt> attempts_;  // one for each part
};

/// Returns whether a token of `h` lies in these blocks, which are frames of `h`.
bool has_token_in(const Hypothesis& h, BlockRange blocks);

/// Inserts the tokens of `part` into `to`, which must have none in the blocks of the part. A
/// hypothesis with a token in these blocks stays as it is.
void insert_part(const AgainPart& part, Hypothesis& to, TokenEvidence& evidence);

}  // namespace rtfx
