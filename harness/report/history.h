// Finds results of the same cases in earlier journals, which show how a figure changed from
// revision to revision.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// Reads every run's journal below `folder`, sorted by path, including those that `--force` kept
/// (journal.jsonl.1). Leaves out profiles, shards and hypotheses. Journals and folders that cannot
/// be read are named on stderr and left out. Throws UserError if the folder does not exist or
/// cannot be read.
std::vector<ResultSet> read_history(const std::filesystem::path& folder);

/// Returns the history of those cases of the run that another journal holds too:
///   {"journals": how many, "other_conditions": number of results left out for other conditions,
///    "cases": [{"case", "points": [{"revision", "dirty", "started", "rounds", "rtfx.total",
///    "rtfx.decode", "wer"}]}]}
/// Points are sorted by time, and include the run itself. RTFx is {"estimate", "low", "high"}: the
/// mean over rounds with its 95 % interval (metric_interval()), with null ends if there is none.
/// "wer" is a share of 1 or null.
nlohmann::json history(const ResultSet& run, const std::vector<ResultSet>& others);

}  // namespace rtfx
