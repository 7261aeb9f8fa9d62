#include "harness/profile/child_process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>

#include "harness/results/journal.h"
#include "harness/results/statistics.h"

namespace rtfx {

std::vector<std::string> profile_arguments(const Config& config, int64_t laps,
                                           const std::string& only) {
  std::vector<std::string> arguments = {"profile", config.origins.file().string(), "--laps",
                                        std::to_string(laps)};
  for (const std::string& text : config.origins.overrides())
    arguments.insert(arguments.end(), {"--set", text});
  if (!only.empty()) arguments.insert(arguments.end(), {"--only", only});
  return arguments;
}

int run_program(const std::string& program, std::vector<std::string> arguments) {
  std::string name = program;
  std::vector<char*> argv = {name.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const bool started =
      posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (!started) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

namespace {

using nlohmann::json;

/// Time with a kernel / undisturbed time, with the interval that the spread over laps gives.
json busy_share(const std::vector<double>& kernels, const std::vector<double>& undisturbed) {
  const auto positive = [](double value) { return value > 0; };
  if (kernels.empty() || undisturbed.empty() || !std::ranges::all_of(undisturbed, positive))
    return nullptr;
  if (!std::ranges::all_of(kernels, positive)) {
    const bool none = std::ranges::none_of(kernels, positive);
    return none ? json({{"share", 0.0}, {"low", 0.0}, {"high", 0.0}}) : json();
  }
  const Interval share = unpaired_ratio(undisturbed, kernels);
  const auto end = [](double value) { return std::isfinite(value) ? json(value) : json(); };
  return {{"share", share.estimate}, {"low", end(share.low)}, {"high", end(share.high)}};
}

}  // namespace

double kernel_excess(const std::vector<json>& records) {
  double most = 0;
  for (const json& record : records) {
    for (const json& region : record.value("regions", json::object())) {
      const json kernels = region.value("lap_kernel_seconds", json());
      const json undisturbed = region.value("undisturbed_seconds", json());
      const double count =
          region.value("kernels", json()).is_number() ? region["kernels"].get<double>() : 0;
      if (!kernels.is_array() || !undisturbed.is_array() || undisturbed.empty() || count == 0)
        continue;
      const double kernel_time = summarize(kernels.get<std::vector<double>>()).mean;
      const double time = summarize(undisturbed.get<std::vector<double>>()).mean;
      const double of_lap = count / static_cast<double>(kernels.size());
      most = std::max(most, (kernel_time - time) / of_lap);
    }
  }
  return most;
}

json busy_within(const json& region, int64_t laps, double excess) {
  json busy = region.value("busy", json());
  if (!busy.is_object()) return nullptr;
  const double time = summarize(region.at("undisturbed_seconds").get<std::vector<double>>()).mean;
  const double kernels = region.at("kernels").get<double>() / static_cast<double>(laps);
  if (busy["low"].is_number())
    busy["low"] = std::max(0.0, busy["low"].get<double>() - kernels * excess / time);
  for (auto& [name, value] : busy.items()) {
    if (value.is_number()) value = std::min(1.0, value.get<double>());
  }
  return busy;
}

std::vector<json> undisturbed_laps(const Config& config, int64_t laps, const std::string& only,
                                   std::string& problem) {
  const std::filesystem::path file = config.output / kUndisturbed;
  std::filesystem::remove(file);
  std::vector<std::string> arguments = profile_arguments(config, laps, only);
  arguments.emplace_back("--undisturbed");
  const int code = run_program(own_program(), std::move(arguments));
  if (code != 0) problem = fmt::format("the laps without a collector ended with code {}", code);
  std::vector<json> records;
  if (std::filesystem::exists(file)) records = read_journal(file);
  std::filesystem::remove(file);
  std::erase_if(records, [](const json& r) { return r.value("kind", "") != "profile"; });
  return records;
}

void add_busy(json& record, const std::vector<json>& undisturbed) {
  const auto same = [&](const json& other) { return other["case"] == record["case"]; };
  const auto found = std::ranges::find_if(undisturbed, same);
  for (auto& [name, region] : record["regions"].items()) {
    region["undisturbed_seconds"] = nullptr;
    region["busy"] = nullptr;
    // A phase ends with a wait here, and with none there.
    if (found == undisturbed.end() || name.find('.') != name.npos) continue;
    const json laps = (*found)["regions"].value(name, json::object()).value("lap_seconds", json());
    if (!laps.is_array()) continue;
    region["undisturbed_seconds"] = laps;
    const json kernels = region.value("lap_kernel_seconds", json());
    if (kernels.is_array()) region["busy"] = busy_share(kernels, laps);
  }
}

}  // namespace rtfx
