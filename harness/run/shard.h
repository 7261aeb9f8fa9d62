// Shards: a run spread over several processes or machines, and the merging of their journals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

// `rtfx run --shard`: one process per GPU, each with its share of the utterances.

/// Which process of a run this one is. One of one: the whole run.
struct Shard {
  int64_t index = 0, count = 1;
  int64_t local_index = 0;  // among the processes of this machine: its GPU
  int64_t local_count = 1;  // of them: they share the CPUs
  /// CPUs of all of them, from a launcher that may bind each to its own.
  std::optional<int64_t> local_cpus = {};
  std::string host = "127.0.0.1";  // where shard 0 can be reached,
  int64_t port = 29531;            // and at which TCP port
  bool launcher_listens = false;   // torchrun's agent keeps a store there already

  bool whole() const { return count == 1; }
  /// "2-of-4"
  std::string label() const;
  /// Where its journal is, in the folder of the run.
  std::filesystem::path folder(const std::filesystem::path& output) const;
};

/// Value of an environment variable; none when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

/// `text`: "i/n" with 0 <= i < n, or "auto": from the variables of torchrun (RANK, WORLD_SIZE,
/// LOCAL_RANK, LOCAL_WORLD_SIZE) or Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID,
/// SLURM_TASKS_PER_NODE, SLURM_CPUS_ON_NODE). MASTER_ADDR and MASTER_PORT say where shard 0 is; all
/// shards of "i/n" are taken to be on one machine. Throws UserError.
Shard parse_shard(const std::string& text, const Environment& environment);

/// The utterances of a shard, ascending. All are sorted by duration and dealt in snake order
/// (0 1 2, 2 1 0, 0 ...). So every utterance is in one shard, and the shards have equal shares of
/// audio up to one utterance.
std::vector<size_t> deal(const std::vector<double>& seconds, int64_t index, int64_t count);

// From the journals of a run's shards to one of the whole run.

/// Merges the shards, which are given in their order. The result is the provenance, and a record of
/// the whole for each case and round that all shards have. Audio, word errors, grades and counters
/// are sums. RTFx is all audio / the longest time of any shard. Regions and conditions are those of
/// the slowest shard. `shards` has the times of each and their skew, longest / mean. A case that
/// failed in one shard has failed. A notice on standard error names each case and round that a
/// shard lacks.
record::Records merge_shards(const std::vector<ResultSet>& shards);

/// Writes the journal and hypotheses of the whole run to `output`, whose shards/ holds those of
/// `count` shards, and returns its records. Throws UserError where it cannot be written, or
/// hypotheses of a shard are missing.
record::Records write_merged(const std::filesystem::path& output, int64_t count);

}  // namespace rtfx
