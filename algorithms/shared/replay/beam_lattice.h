// Bounds of the score of a text. They are computed from the log-probabilities of each cell (t, u),
// which is frame t after u tokens. This code uses no tensors.
//
//   least   score of the returned alignment alone: its tokens at their frames, blanks elsewhere.
//           TDT does not return the durations of blanks, so the least probable chain counts.
//   most    ln P(y), the sum over all alignments of the text
//
// A beam sums the alignments that it keeps, each once. Its score lies between the two bounds, since
// the returned alignment is among them. Cells more than kBand tokens away from that alignment are
// not evaluated. Alignments that leave this band count as if all of them came to the end, so that
// `most` stays an upper bound.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/shared/replay/replayed.h"

namespace rtfx {

/// A log-probability and the variance that rounding gives it.
struct LogProb {
  double value = 0, variance = 0;
};

struct LatticeCell {
  int64_t row = 0, prefix = 0, frame = 0;
  LogProb blank, token;  // of the text's next token; a language model's score is added
  double least_blank = 0;
  std::vector<LogProb> durations;  // TDT
};

constexpr int64_t kBand = 3;

/// Returns the cells that a hypothesis of `length` frames needs.
std::vector<LatticeCell> lattice_cells(const Hypothesis& hypothesis, int64_t row, int64_t length);

/// Returns the bounds of the score of a transducer's text. `durations` are the values of TDT, empty
/// for RNN-T. `monotonic` says that each label, tokens included, moves at least one frame. `growth`
/// is the bonus of each token (LmOptions::beta), by which scores may exceed the probabilities.
Replayed transducer_scores(const Hypothesis& hypothesis, int64_t length,
                           const std::vector<LatticeCell>& cells,
                           const std::vector<int64_t>& durations, bool monotonic, double growth);

/// Returns the bounds for CTC. The token of cell (t, u) is token u + 1 of the text, which the frame
/// begins or repeats. The lengths of runs are not known, so the least score is the least over all
/// lengths. With `sum` false, only the best alignment counts.
Replayed ctc_scores(const Hypothesis& hypothesis, int64_t length,
                    const std::vector<LatticeCell>& cells, bool sum);

}  // namespace rtfx
