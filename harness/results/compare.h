// `rtfx compare` and the table of `rtfx gate` on the terminal.
#pragma once

#include <string>
#include <vector>

#include "harness/results/results.h"
#include "harness/results/verdict.h"

namespace rtfx {

/// Prints the cases that both hold, metric by metric: both figures, and the change from a to b with
/// its 95 % interval. The interval is Welch's for RTFx. For WER it is the paired bootstrap over
/// utterances, where both folders hold the hypotheses. Before the cases it prints what changed in
/// the provenance. After them it prints cases that only one holds, weights that were tuned and the
/// noise floor. Throws UserError for profiled records and where no case is in both.
void print_comparison(const ResultSet& a, const ResultSet& b);

/// Compares each decoder of one run with the decoder that it is compared to: the speed-up from
/// rounds that were measured side by side, and the difference in WER. Then it compares each case in
/// another dtype with the same case in fp32. Last, it prints cases that failed, weights that were
/// tuned, and the noise floor by A/A controls. If there is nothing to compare, a line says so.
void print_speed_ups(const ResultSet& results);

/// Prints the verdict of each case and metric, with its figures, to standard output.
void print_gate(const std::vector<GateRow>& rows);

/// Returns, for example, "35.20 x -> 33.10 x  x 0.940 [0.930, 0.951]  tolerance 5 %, noise 2 %".
/// Empty if the row has no figures.
std::string figures_of(const GateRow& row);

}  // namespace rtfx
