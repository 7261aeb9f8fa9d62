// Merges the journals of a run's shards into one of the whole run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/results/records.h"
#include "harness/results/results.h"

namespace rtfx {

/// Merges the shards, at least one, which are given in the order of their indices. Returns the
/// provenance, and one record for each case and round that all shards have:
/// - Metrics follow Metric::merge of metric_table.h.
/// - Audio, word errors, grades and counters are sums.
/// - RTFx is all audio divided by the longest time of any shard.
/// - Regions and conditions are those of the slowest shard.
/// - `shards` holds the time of each shard, and their skew (longest / mean).
/// A case that failed in one shard has failed. Prints a notice on stderr for each case or round
/// that a shard lacks.
record::Records merge_shards(const std::vector<ResultSet>& shards);

/// Reads the journals of `count` shards from output/shards, and writes the journal and hypotheses
/// of the whole run to `output`. Returns its records. Throws UserError if it cannot be written, or
/// if a shard's journal or hypotheses are missing or invalid.
record::Records write_merged(const std::filesystem::path& output, int64_t count);

}  // namespace rtfx
