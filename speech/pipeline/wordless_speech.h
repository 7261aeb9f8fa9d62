// Speech without words: parts of a recording in which somebody speaks by the level of the sound,
// and for which the search found no token. Some models stay on blank for many seconds of clear
// speech, from a fresh state too. They give the words once the window is cut in another way
// (FluidAudio issue 909, transcribe.cpp issue 71, hyperaudio-lite-editor issue 671).
//
// Numbers in, numbers out. A block of samples is what the encoder makes one frame of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rtfx {

/// A decibel figure for each block of `block` samples (the last may be shorter): the mean square,
/// with 0 dB for a full-scale square wave, and never below -100 dB.
std::vector<float> block_levels(std::span<const float> samples, size_t block);

/// Blocks [begin, end).
struct BlockRange {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const BlockRange&) const = default;
};

/// A part of a recording that had speech and no word, and what decoding it again gave.
struct WordlessPart {
  BlockRange blocks;
  int64_t words = 0;  // 0: it stays without words
  int decodes = 0;    // further ones
};

/// How often each level occurred in a recording so far, in steps of 1 dB.
class LevelHistogram {
 public:
  void add(std::span<const float> levels);
  /// The level of the block that `share` of all blocks are quieter than, rounded down to 1 dB.
  /// Without any block it is -100 dB.
  float quantile(double share) const;

 private:
  std::array<int64_t, 128> counts_{};  // element i: levels in [i - 100, i - 99) dB
  int64_t total_ = 0;
};

/// Whether each block sounds like speech. Three conditions hold for it:
///
///   - Its level is 10 dB above the noise floor, the 10th percentile of `heard`.
///   - It is at most 30 dB below the loud blocks, the 95th percentile, and at least -65 dB.
///   - The sound is modulated: the half seconds before and behind it each have a block that is
///     10 dB below the loudest block of both.
///
/// So digital silence, room tone, steady noise and its begin are no speech, at any level. Music may
/// be speech.
/// `heard`: the levels of the recording so far, those of `levels` among them.
std::vector<bool> speech_blocks(std::span<const float> levels, const LevelHistogram& heard,
                                double block_seconds);

struct WordlessRule {
  double block_seconds = 0;
  double shortest = 8;  // seconds without a token; 0: nothing is looked for
  /// The levels are those of a whole recording. If it has no token at all, it may be shorter.
  bool whole = false;
};

/// Whether wordless_speech() can find anything, from the tokens alone, which cost nothing to look
/// at. `token_blocks`: in which block each token is, ascending.
bool has_wordless_run(size_t blocks, std::span<const size_t> token_blocks,
                      const WordlessRule& rule);

/// Runs of `rule.shortest` seconds or more without a token, with at least 1.5 s of speech. Each is
/// returned from half a second before its first block of speech to half a second behind its last
/// one, and speech is a tenth of that or more. A whole recording without a token needs 0.5 s of
/// speech.
std::vector<BlockRange> wordless_speech(std::span<const float> levels, const LevelHistogram& heard,
                                        std::span<const size_t> token_blocks,
                                        const WordlessRule& rule);

}  // namespace rtfx
