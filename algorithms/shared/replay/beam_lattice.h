// Bounds of the score of a text, from the log-probabilities of each cell (t, u), which is frame t
// after u tokens. No tensors.
//
//   least   the returned alignment alone: its tokens at their frames, blanks elsewhere; TDT: the
//           chain of blanks with the least probability, since their durations are not known
//   most    ln P(y), all alignments of the text together
//
// A beam that adds up the alignments it keeps, each once, gives a score between the two: the
// returned alignment is among them. Cells more than kBand tokens away from that alignment are not
// evaluated. What leaves the band counts as if all of it came to the end: the bound stays one.
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
  LogProb blank, token;  // of the text's next token, with what a language model adds
  double least_blank = 0;
  std::vector<LogProb> durations;  // TDT
};

constexpr int64_t kBand = 3;

/// The cells that a hypothesis of `length` frames needs; empty where no alignment has its frames.
std::vector<LatticeCell> lattice_cells(const Hypothesis& hypothesis, int64_t row, int64_t length);

/// Least and most score of a transducer's text. `durations`: values, empty for RNN-T. `monotonic`:
/// each label moves at least one frame, tokens too. `growth`: what a token may add beyond its
/// probability.
Replayed transducer_scores(const Hypothesis& hypothesis, int64_t length,
                           const std::vector<LatticeCell>& cells,
                           const std::vector<int64_t>& durations, bool monotonic, double growth);

/// Bounds for CTC, where a cell's token is the one that a label would make or, one further, repeat.
/// The lengths of runs are not known, so the least score is over all of them. With `sum` false, the
/// best alignment alone counts.
Replayed ctc_scores(const Hypothesis& hypothesis, int64_t length,
                    const std::vector<LatticeCell>& cells, bool sum);

}  // namespace rtfx
