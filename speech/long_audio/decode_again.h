// Decoding again what a search left without words although somebody speaks there
// (speech/pipeline/wordless_speech.h): which pieces of audio, and which of the results is kept.
//
// A model that stays on blank does so from a fresh state, too, and at windows of some lengths only.
// So each part is decoded at most twice more, each time cut in another way:
//
//   1. pieces of at most 10 s, with 1 s of audio on either side
//   2. pieces of at most 5 s, with 0.5 s on either side
//
// Pieces end at the quietest place. Where the recording has no audio on a side, there is silence.
// The second cut is only tried where the first one left half as much speech without words, or found
// no word at all.
//
// A result counts if it has words and the mean confidence of its tokens is at least
// kLeastConfidence, by the default measure (ConfidenceOptions), whichever one is printed. Of two
// that count, the one with more words is kept, the first of equals.
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

/// Audio to look at. Samples must outlive DecodeAgain.
struct HeardAudio {
  std::span<const float> samples;
  size_t block = 0;   // samples
  size_t before = 0;  // blocks of `samples` before those in which parts are looked for
};

/// Audio that is decoded by itself.
struct AgainPiece {
  size_t part = 0, number = 0;  // which piece of which part
  BlockRange own;               // tokens in these blocks are kept
  int64_t context = 0;          // blocks before and behind them
  std::vector<float> samples;   // of contexts and own blocks
};

/// Tokens and their evidence, which may be empty.
struct FoundTokens {
  Hypothesis hypothesis;
  TokenEvidence evidence;
  std::vector<double> judged;  // each token's confidence that decides whether the result counts
};

struct AgainPart : WordlessPart {
  FoundTokens found;  // frames are blocks
};

class DecodeAgain {
 public:
  /// `levels`: of the blocks in which parts are looked for. `token_blocks`: in which of these each
  /// token of the first result is, ascending. `tokenizer` must outlive this.
  DecodeAgain(const HeardAudio& audio, std::vector<float> levels, const LevelHistogram& heard,
              std::span<const size_t> token_blocks, const WordlessRule& rule,
              const Tokenizer& tokenizer);

  /// The pieces that are to be decoded next. Empty once all parts are done, and until take() was
  /// called with all pieces of a part.
  std::vector<AgainPiece> next();
  /// The result of a piece, frames counted from its first own block. If `found.judged` is empty, it
  /// counts as confident.
  void take(const AgainPiece& piece, FoundTokens found);
  /// Whether there is no part to decode again, and no piece to wait for.
  bool done() const;

  const std::vector<AgainPart>& parts() const { return parts_; }

 private:
  struct Attempt {
    std::vector<FoundTokens> pieces;  // by number
    size_t missing = 0;
    bool wanted = true;  // it is next() to begin it
  };
  void judge(AgainPart& part, Attempt& attempt);

  HeardAudio audio_;
  std::vector<float> levels_;
  LevelHistogram heard_;
  WordlessRule rule_;
  const Tokenizer& tokenizer_;
  std::vector<AgainPart> parts_;
  std::vector<Attempt> attempts_;  // of each part
};

/// Whether a token of `h` lies in these blocks, which are its frames.
bool has_token_in(const Hypothesis& h, BlockRange blocks);

/// Puts the tokens of `part` among those of `to`, which has none in its blocks. A hypothesis with a
/// token in these blocks stays as it is.
void insert_part(const AgainPart& part, Hypothesis& to, TokenEvidence& evidence);

}  // namespace rtfx
