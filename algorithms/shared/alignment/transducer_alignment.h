// Forced alignment through a transducer's lattice. A node (t, u) stands at frame t, behind the
// first u tokens of the text. From each node lead
//
//   RNN-T  blank  to (t + 1, u)               with log p(blank | t, u)
//          token  to (t, u + 1)               with log p(y_u+1 | t, u)
//   TDT    blank  to (t + max(d, 1), u)       with log p(blank | t, u) + log p(d | t, u)
//          token  to (t + d, u + 1)           with log p(y_u+1 | t, u) + log p(d | t, u)
//
// for each duration d. A path begins at (0, 0) and ends where a step reaches or passes frame T
// behind all U tokens. Its log probability is the sum of its steps, and the alignment is the path
// with the largest. RNN-T: Graves, "Sequence Transduction with Recurrent Neural Networks" (2012),
// section 2.4, with max in place of the sum. TDT: Xu et al., "Efficient Sequence Transduction by
// Jointly Predicting Tokens and Durations" (2023), section 3. Two rules are those of the searches
// and not of the paper's training. A blank of duration 0 moves on by one frame, and a step of any
// kind may pass the last frame. So the path of every search is a path of this lattice. There is no
// limit of tokens per frame.
//
// Ties have a rule. Where paths into a node are equal, the one is taken whose last step comes from
// the earlier frame. Among those, a token's step is taken before a blank's, then the step of the
// duration that is listed first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/shared/alignment/alignment.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

/// The nodes that an alignment visits. At frame t, they stand behind first[t] .. last[t] tokens.
/// Neither bound decreases from one frame to the next.
struct LatticeBand {
  std::vector<int32_t> first, last;

  int64_t frames() const { return std::ssize(first); }
  int64_t nodes() const;
};

/// Returns all nodes of `frames` frames and `tokens` tokens.
LatticeBand whole_lattice(int64_t frames, int64_t tokens);

/// Returns the nodes near `guide`, which holds the frame of each token, never decreasing. At frame
/// t, tokens with guide[u] + width < t must have been said, and tokens with guide[u] > t + width
/// must not have been. width >= 0.
LatticeBand band_around(std::span<const int32_t> guide, int64_t frames, int64_t width);

/// Estimates the frame of each of `tokens` from the result of a search. The two texts are aligned
/// by the least edit distance, and tokens that both have get the frames of `found`. The frames of
/// the tokens between them are spaced evenly. `found` has frames[i] for each of its tokens, and all
/// frames are below `total`. Takes (U + 1) x (tokens found + 1) bytes. The result never decreases.
std::vector<int32_t> guide_from(const Hypothesis& found, std::span<const int32_t> tokens,
                                int64_t total);

/// Aligns `tokens` with encoder frames [T, D], T >= 1, in the model's dtype and on its device. The
/// device evaluates the joint network for all nodes of the band, block by block, in the model's
/// dtype with distributions in score_dtype(). The host searches. Memory is the outputs of the
/// prediction network for all prefixes, a block of about 128 MiB, and 5 bytes for each node. The
/// result has `nan` also where the band has no path. Waits for the device once per block.
Alignment align_transducer(const Transducer& transducer, const at::Tensor& frames,
                           std::span<const int32_t> tokens, const LatticeBand& band);

}  // namespace rtfx
