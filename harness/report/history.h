// Results of the same cases in earlier journals: how a figure moved from revision to revision.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// Every run's journal below `folder`, with those that `--force` kept (journal.jsonl.1) and without
/// profiles, shards and hypotheses, sorted by path. Journals and folders that cannot be read are
/// named on standard error and left out. Throws UserError where there is no such folder, or it
/// cannot be read.
std::vector<ResultSet> read_history(const std::filesystem::path& folder);

/// The parts of a result key without the revision. Two results of equal conditions differ only by
/// the source that they were built from, and by noise.
nlohmann::json conditions_of(const CaseResult& result);

/// {"journals": how many, "other_conditions": results that were left out for them,
///  "cases": [{"case", "points": [{"revision", "dirty", "started", "rounds", "rtfx.total",
///  "rtfx.decode", "wer"}]}]} of the run's cases that another journal holds too. Points are sorted
/// by time, the run's own is among them. RTFx is {"estimate", "low", "high"}: the mean over rounds
/// with its 95 % interval (metric_interval()), the ends null where there is none; "wer" is a share
/// of 1 or null.
nlohmann::json history(const ResultSet& run, const std::vector<ResultSet>& others);

}  // namespace rtfx
