// Writes the line of `rtfx summary`. It is written in parts, so that a long journal is in memory
// only once.
#pragma once

#include <functional>
#include <string_view>

#include "harness/results/results.h"

namespace rtfx {

/// Writes the line of `rtfx summary`, which the scripts in plots/ read, piece by piece:
///   {"provenances": [...], "cases": [...], "streams": [...], "mark_meanings": {"NOISY": "..."},
///    "metrics": metrics_json(), "tuned": tuned_sentences()}
/// A case has the members of summary_json(), its record "last", its "rounds", and "figures"
/// (figures_json()).
void write_summary(const ResultSet& results, const std::function<void(std::string_view)>& write);

}  // namespace rtfx
