// Shards: a run spread over several processes or machines. Each has its share of the utterances.
// harness/run/merge_shards.h merges their journals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rtfx {

/// The part of this process in a run. A run in one process is shard 0 of 1.
struct Shard {
  int64_t index = 0, count = 1;
  /// Index among the processes of this machine, which is also the index of its GPU.
  int64_t local_index = 0;
  int64_t local_count = 1;  // number of processes of this machine, which share its CPUs
  /// Number of CPUs of all processes of this machine, from a launcher that may bind each to its
  /// own.
  std::optional<int64_t> local_cpus = {};
  std::string host = "127.0.0.1";  // where shard 0 can be reached
  int64_t port = 29531;            // TCP port of shard 0
  bool launcher_listens = false;   // torchrun's agent keeps a store there already

  bool whole() const { return count == 1; }
  /// Returns, for example, "2-of-4".
  std::string label() const;
  /// Returns the folder of the shard's journal within the folder of the run.
  std::filesystem::path folder(const std::filesystem::path& output) const;
};

/// Returns the value of an environment variable, or none if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

/// Parses `text`: "i/n" with 0 <= i < n, or "auto". All shards of "i/n" are on one machine. "auto"
/// takes the variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE) or of Slurm
/// (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_TASKS_PER_NODE, SLURM_CPUS_ON_NODE).
/// MASTER_ADDR and MASTER_PORT say where shard 0 is. Throws UserError.
Shard parse_shard(const std::string& text, const Environment& environment);

/// Returns the indices of the utterances of shard `index`, ascending. The utterances are sorted by
/// duration and dealt in snake order (0 1 2, 2 1 0, 0 ...). So every utterance is in one shard, and
/// the shards have equal shares of audio to within one utterance.
std::vector<size_t> deal(const std::vector<double>& seconds, int64_t index, int64_t count);

}  // namespace rtfx
