// Where long audio is cut: in pauses of speech, as far as there are any. Numbers in, numbers out.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rtfx {

/// A decibel figure for each block of `block` samples (the last may be shorter): the mean square,
/// with 0 dB for a full-scale square wave, and never below -100 dB.
std::vector<float> block_levels(std::span<const float> samples, size_t block);

struct Cut {
  size_t block = 0;    // the first behind the cut
  bool pause = false;  // nobody speaks there
};

/// The quietest place in [earliest, latest] of blocks with these levels: the middle of the three
/// blocks with the least sum; the latest such place of equals. It is a pause if all three are
/// `depth` dB below the loud blocks (95th percentile of all). 1 <= earliest <= latest <=
/// levels.size().
Cut best_cut(std::span<const float> levels, size_t earliest, size_t latest, float depth = 25);

/// Blocks [begin, end).
struct BlockRange {
  size_t begin = 0, end = 0;
  bool operator==(const BlockRange&) const = default;
};

/// Runs of at least `shortest` blocks without a token, although at least half of their blocks are
/// not `depth` dB below the loud ones. `token_blocks`: in which block each token is, ascending.
std::vector<BlockRange> silent_runs(std::span<const float> levels,
                                    std::span<const size_t> token_blocks, size_t shortest,
                                    float depth = 25);

}  // namespace rtfx
