// The table of a run on the terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace rtfx {

/// Prints one line per case to stdout, grouped by model and dataset, whole ids; colours
/// only on a terminal and without NO_COLOR.
void print_table(const std::vector<nlohmann::json>& records);

/// Prints the costs of the cases: percentiles of the time of a batch, GPU memory and energy.
void print_costs(const std::vector<nlohmann::json>& records);

}  // namespace rtfx
