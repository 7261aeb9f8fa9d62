// From the journals of a run's shards to one of the whole run.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// Provenance, and for each case and round that all shards have, a record of the whole: audio, word
/// errors, grades and counters are sums; RTFx is all audio / the longest time of any shard; regions
/// and conditions are those of the slowest shard; `shards` has the times of each and their skew,
/// longest / mean. A case that failed in one shard has failed. `shards`: in their order.
std::vector<nlohmann::json> merge_shards(const std::vector<ResultSet>& shards);

/// Writes the journal and hypotheses of the whole run to `output`, whose shards/ holds those of
/// `count` shards, and returns its records. Throws UserError where it cannot be written.
std::vector<nlohmann::json> write_merged(const std::filesystem::path& output, int64_t count);

}  // namespace rtfx
