// The table of a run on the terminal.
#pragma once

#include "harness/results/summaries.h"

namespace rtfx {

/// Prints one line per case to stdout, grouped by model and dataset, whole ids; colours
/// only on a terminal and without NO_COLOR. It ends with the sentences of conclude().
void print_table(const Summaries& cases);

/// Prints the costs of the cases: percentiles of the time of a batch, GPU memory and energy.
void print_costs(const Summaries& cases);

}  // namespace rtfx
