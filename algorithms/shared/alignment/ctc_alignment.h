// Forced alignment through the emissions of a CTC head, by the recursion of ctc_viterbi.h. It finds
// the path of torchaudio.functional.forced_align. There is one exception: where two ways into a
// state are equal and better than staying in it, torchaudio stays nevertheless.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "algorithms/shared/alignment/alignment.h"

namespace rtfx {

/// Returns the number of frames of a text's shortest path: one for each token, and one for the
/// blank between two equal tokens.
int64_t least_ctc_frames(std::span<const int32_t> tokens);

/// Emissions of one utterance, in blocks so that they need not be in memory at once.
struct EmissionSource {
  int64_t frames = 0, labels = 0;  // T and V + 1; blank is the last label
  /// Returns frames [first, first + count): natural logarithms, [count, labels] float32,
  /// contiguous, on the CPU. The same frames may be asked for twice, with equal results.
  std::function<at::Tensor(int64_t first, int64_t count)> read;
};

/// Returns a source of emissions [T, V + 1] float32 in memory, contiguous, on the CPU.
EmissionSource emissions_in_memory(const at::Tensor& emissions);

/// Bytes for a block of emissions and origins.
inline constexpr int64_t kAlignmentBlockBytes = int64_t{64} << 20;

/// Aligns on the CPU. The frames are cut into blocks whose emissions and origins (a byte for each
/// frame and token) take `block_bytes`. With several blocks, the first pass keeps only the columns
/// before each block. The way back computes all blocks but the last once more (Hirschberg's idea of
/// checkpoints). So the memory is `block_bytes` plus 8 bytes for each token and block, and the time
/// at most doubles. Results do not depend on `block_bytes`. emissions.frames must be at least
/// least_ctc_frames(tokens), and tokens lie in 0 .. labels - 2.
Alignment align_ctc(const EmissionSource& emissions, std::span<const int32_t> tokens,
                    int64_t block_bytes = kAlignmentBlockBytes);

/// Aligns row b of emissions [B, T, V + 1] (float32, contiguous) with texts[b]. The row has
/// lengths[b] frames, and later frames are not read. Each row must have as many frames as
/// align_ctc() asks for. On a GPU, one block of threads aligns a row, and the call waits for the
/// current stream once. The origins take B x T x (U + 1) bytes. On the CPU, each thread aligns a
/// row. The results on both have the bits of align_ctc().
std::vector<Alignment> align_ctc_batch(const at::Tensor& emissions,
                                       const std::vector<int64_t>& lengths,
                                       const std::vector<std::vector<int32_t>>& texts);

}  // namespace rtfx
