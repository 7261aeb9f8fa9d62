// Records of kind "stream" (docs/journal.md), and their table.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/shared/wfst/search.h"
#include "harness/config/stream_options.h"
#include "harness/stream/stream_load.h"

namespace rtfx {

/// The fields "stream", "requests", "batches", "stable" and "metrics".
nlohmann::json stream_figures(const StreamOptions& options, const LoadFigures& figures);

/// Tokens, frames and the score's bits are those of the whole utterance.
bool same_result(const WfstPath& streamed, const Hypothesis& whole);

void print_stream_table(const std::vector<nlohmann::json>& records);

/// The ExitCode that the records ask for.
int stream_outcome(const std::vector<nlohmann::json>& records);

}  // namespace rtfx
