// Finds speech without words: parts of a recording in which somebody speaks by the level of the
// sound, but the search found no token. Some models stay on blank for many seconds of clear speech,
// from a fresh state too. They find the words once the window is cut in another way (FluidAudio
// issue 909, transcribe.cpp issue 71, hyperaudio-lite-editor issue 671).
//
// All functions take and return plain numbers. A block is the samples of one encoder frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rtfx {

/// Returns the level in dB of each block of `block` samples (the last may be shorter). It is the
/// mean square, with 0 dB for a full-scale square wave, and at least -100 dB.
std::vector<float> block_levels(std::span<const float> samples, size_t block);

/// The blocks [begin, end).
struct BlockRange {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const BlockRange&) const = default;
};

/// A part of a recording with speech and without words, and the result of decoding it again.
struct WordlessPart {
  BlockRange blocks;
  int64_t words = 0;  // words found then; 0 = it stays without words
  int decodes = 0;    // additional decodes
};

/// Counts how often each level occurred in a recording so far, in steps of 1 dB.
class LevelHistogram {
 public:
  void add(std::span<const float> levels);
  /// Returns the level, rounded down to 1 dB, of the block that is louder than `share` of all
  /// blocks. Without any block it is -100 dB.
  float quantile(double share) const;

 private:
  std::array<int64_t, 128> counts_{};  // element i: levels in [i - 100, i - 99) dB
  int64_t total_ = 0;
};

/// Returns whether each block sounds like speech. It does if all three conditions hold:
///
///   - Its level is at least 10 dB above the noise floor, the 10th percentile of `heard`.
///   - It is at most 30 dB below the loud blocks, the 95th percentile, and at least -65 dB.
///   - The sound is modulated: the half seconds before and after it each have a block that is
///     10 dB below the loudest block of both.
///
/// Digital silence, room tone, steady noise and the begin of such noise are therefore no speech, at
/// any level. Music may count as speech. `heard` has the levels of the recording so far, including
/// `levels`.
std::vector<bool> speech_blocks(std::span<const float> levels, const LevelHistogram& heard,
                                double block_seconds);

struct WordlessRule {
  double block_seconds = 0;
  double shortest = 8;  // seconds without a token; 0 = nothing is searched for
  /// The levels are those of a whole recording. If it has no token at all, it may be shorter than
  /// `shortest`.
  bool whole = false;
};

/// Returns whether wordless_speech() can find anything. It only looks at the tokens, which takes no
/// time. `token_blocks` has the block of each token, ascending.
bool has_wordless_run(size_t blocks, std::span<const size_t> token_blocks,
                      const WordlessRule& rule);

/// Returns runs of `rule.shortest` seconds or more without a token, with at least 1.5 s of speech.
/// A run is returned from half a second before its first block of speech to half a second after its
/// last one. Speech is at least a tenth of it. A whole recording without a token needs only 0.5 s
/// of speech.
std::vector<BlockRange> wordless_speech(std::span<const float> levels, const LevelHistogram& heard,
                                        std::span<const size_t> token_blocks,
                                        const WordlessRule& rule);

}  // namespace rtfx
