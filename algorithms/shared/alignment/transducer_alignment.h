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

/// The nodes that an alignment looks at: at frame t those behind first[t] .. last[t] tokens. Both
/// never fall.
struct LatticeBand {
  std::vector<int32_t> first, last;

  int64_t frames() const { return std::ssize(first); }
  int64_t nodes() const;
};

/// All nodes of T frames and U tokens.
LatticeBand whole_lattice(int64_t frames, int64_t tokens);

/// Nodes at which no token that is said by `guide` lies more than `width` frames back, and none
/// that is still to be said more than `width` ahead. guide[u] is about the frame of token u; no
/// entry is below the one before it. width >= 0.
LatticeBand band_around(std::span<const int32_t> guide, int64_t frames, int64_t width);

/// Returns the frame of each of `tokens`, as far as a search's result tells. Tokens that both have,
/// by the least edit distance between the two, have the frames of `found`. Those between them are
/// at equal steps. `found` has frames[i] for each of its tokens, and frames below `total`.
/// Takes (U + 1) x (tokens found + 1) bytes. Never falls.
std::vector<int32_t> guide_from(const Hypothesis& found, std::span<const int32_t> tokens,
                                int64_t total);

/// Aligns `tokens` with encoder frames [T, D], T >= 1, in the model's dtype and on its device. The
/// joint network is evaluated for all nodes of the band, block by block on the device, in the
/// model's dtype with distributions in float32. The host searches. Memory is the outputs of the
/// prediction network for all prefixes, a block of about 128 MiB and 5 bytes for each node. The
/// result has `nan` also where the band has no path. Waits for the device once per block.
Alignment align_transducer(const Transducer& transducer, const at::Tensor& frames,
                           std::span<const int32_t> tokens, const LatticeBand& band);

}  // namespace rtfx
