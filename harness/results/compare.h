// `rtfx compare` and the table of `rtfx gate` on the terminal.
#pragma once

#include <optional>
#include <vector>

#include "harness/results/gate.h"
#include "harness/results/results.h"

namespace rtfx {

/// Cases that both hold, metric by metric: both figures, and the change from a to b with its 95 %
/// interval (Welch's for RTFx; the paired bootstrap over utterances for WER, where both folders
/// hold the hypotheses). Before it, what changed in the provenance; after it, cases that only one
/// holds and the noise floor. Throws UserError for profiled records and where no case is in both.
void print_comparison(const ResultSet& a, const ResultSet& b);

/// WER of y (a case of b) minus that of x (of a) by paired bootstrap over the utterances that have
/// a reference in both, normalised as in y; none where the hypotheses of either are not there.
std::optional<Interval> wer_difference(const ResultSet& a, const CaseResult& x, const ResultSet& b,
                                       const CaseResult& y);

/// Each decoder of one run against the decoder that it is compared with: speed-up from rounds that
/// were measured side by side, and the difference in WER. A/A controls show the noise floor.
void print_speed_ups(const ResultSet& results);

void print_gate(const std::vector<GateRow>& rows);

}  // namespace rtfx
