// From the journals of a run's shards to one of the whole run.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// Merges the shards, which are given in their order. The result is the provenance, and a record of
/// the whole for each case and round that all shards have. Audio, word errors, grades and counters
/// are sums. RTFx is all audio / the longest time of any shard. Regions and conditions are those of
/// the slowest shard. `shards` has the times of each and their skew, longest / mean. A case that
/// failed in one shard has failed.
std::vector<nlohmann::json> merge_shards(const std::vector<ResultSet>& shards);

/// Writes the journal and hypotheses of the whole run to `output`, whose shards/ holds those of
/// `count` shards, and returns its records. Throws UserError where it cannot be written.
std::vector<nlohmann::json> write_merged(const std::filesystem::path& output, int64_t count);

}  // namespace rtfx
