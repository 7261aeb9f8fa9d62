// Records of kind "stream" (docs/journal.md), and their table.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "algorithms/hypotheses.h"
#include "harness/config/stream_settings.h"
#include "harness/results/records.h"
#include "harness/stream/stream_load.h"

namespace rtfx {

/// Sets the settings and the figures of the load.
void add_stream_figures(record::StreamRun& run, const StreamSettings& options,
                        const LoadFigures& figures);

/// 99th percentile and queue are as the settings want them.
bool within_slo(const StreamSettings& options, const LoadFigures& figures);

/// Tokens, frames and durations are those of the utterance in one piece; with `bits` scores are,
/// too.
bool same_result(const Hypothesis& streamed, const Hypothesis& whole, bool bits);

void print_stream_table(const std::vector<nlohmann::json>& records);

/// The ExitCode that the records ask for.
int stream_outcome(const std::vector<nlohmann::json>& records);

}  // namespace rtfx
