#include "harness/run/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/numbers.h"

namespace rtfx {

namespace {

std::optional<int64_t> parse_integer(std::string_view text) {
  const auto value = parse_number<int64_t>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

/// Returns the number of tasks of the first node, which is the largest: 4 for "4(x2),3".
int64_t tasks_of_first_node(const std::string& text) {
  return parse_integer(text.substr(0, text.find_first_of("(,"))).value_or(1);
}

int64_t read_integer(const Environment& environment, const std::string& name) {
  const auto text = environment(name);
  const auto value = text ? parse_integer(*text) : std::nullopt;
  if (!value) {
    throw UserError("--shard auto", fmt::format("{} is '{}'", name, text.value_or("")),
                    "start it with torchrun or srun, or give --shard i/n");
  }
  return *value;
}

void read_rendezvous(Shard& shard, const Environment& environment) {
  if (const auto host = environment("MASTER_ADDR")) shard.host = *host;
  if (const auto text = environment("MASTER_PORT")) {
    constexpr int64_t kLast = 65535;
    shard.port = parse_integer(*text).value_or(0);
    if (shard.port < 1 || shard.port > kLast) {
      throw UserError("--shard", fmt::format("MASTER_PORT is '{}'", *text),
                      fmt::format("set it to a number from 1 to {}", kLast));
    }
  }
  shard.launcher_listens = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
}

}  // namespace

std::string Shard::label() const { return fmt::format("{}-of-{}", index, count); }

std::filesystem::path Shard::folder(const std::filesystem::path& output) const {
  return whole() ? output : output / "shards" / label();
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Shard parse_shard(const std::string& text, const Environment& environment) {
  Shard shard;
  read_rendezvous(shard, environment);
  if (text != "auto") {
    const size_t slash = text.find('/');
    const auto index = parse_integer(std::string_view(text).substr(0, slash));
    const auto count = slash == std::string::npos
                           ? std::nullopt
                           : parse_integer(std::string_view(text).substr(slash + 1));
    if (!index || !count || *index >= *count)
      throw UserError("--shard " + text, "no shard", "i/n with 0 <= i < n, or auto");
    shard.index = shard.local_index = *index;
    shard.count = shard.local_count = *count;
    shard.launcher_listens = false;
    return shard;
  }
  if (environment("RANK")) {
    shard.index = read_integer(environment, "RANK");
    shard.count = read_integer(environment, "WORLD_SIZE");
    shard.local_index = read_integer(environment, "LOCAL_RANK");
    if (environment("LOCAL_WORLD_SIZE"))
      shard.local_count = read_integer(environment, "LOCAL_WORLD_SIZE");
  } else if (environment("SLURM_PROCID")) {
    shard.index = read_integer(environment, "SLURM_PROCID");
    shard.count = read_integer(environment, "SLURM_NTASKS");
    shard.local_index = read_integer(environment, "SLURM_LOCALID");
    shard.local_count = tasks_of_first_node(environment("SLURM_TASKS_PER_NODE").value_or("1"));
    if (environment("SLURM_CPUS_ON_NODE"))
      shard.local_cpus = read_integer(environment, "SLURM_CPUS_ON_NODE");
    const bool nodes = environment("SLURM_NNODES").value_or("1") != "1";
    if (nodes && !environment("MASTER_ADDR")) {
      throw UserError(
          "--shard auto", "several nodes, and MASTER_ADDR is not set",
          "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1)");
    }
  } else {
    throw UserError("--shard auto", "neither torchrun's RANK nor Slurm's SLURM_PROCID is set",
                    "start it with torchrun or srun, or give --shard i/n");
  }
  shard.local_count = std::max<int64_t>(1, shard.local_count);
  if (shard.index >= shard.count) {
    throw UserError("--shard auto", fmt::format("shard {} of {}", shard.index, shard.count),
                    "start it with torchrun or srun, or give --shard i/n");
  }
  return shard;
}

std::vector<size_t> deal(const std::vector<double>& seconds, int64_t index, int64_t count) {
  std::vector<size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  std::vector<size_t> mine;
  const auto n = static_cast<size_t>(count);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t place = i % n;
    const size_t to = (i / n) % 2 == 0 ? place : n - 1 - place;
    if (to == static_cast<size_t>(index)) mine.push_back(order[i]);
  }
  std::sort(mine.begin(), mine.end());
  return mine;
}

}  // namespace rtfx
