#include "harness/profile/child_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/process.h"
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

namespace {

using Seconds = std::vector<Number>;

double mean(const Seconds& seconds) {
  return spread_of(std::vector<double>(seconds.begin(), seconds.end())).mean;
}

/// Returns the time with a kernel divided by the undisturbed time. The interval follows from the
/// spread over laps.
Nullable<record::BusyShare> busy_share(const Seconds& kernels, const Seconds& undisturbed) {
  const auto positive = [](double value) { return value > 0; };
  record::BusyShare busy;
  if (kernels.empty() || undisturbed.empty() || !std::ranges::all_of(undisturbed, positive))
    return std::nullopt;
  if (!std::ranges::all_of(kernels, positive)) {
    if (!std::ranges::none_of(kernels, positive)) return std::nullopt;
    busy.share = 0.0;
    busy.low = busy.high = Number(0.0);
    return busy;
  }
  const Interval share =
      unpaired_ratio({undisturbed.begin(), undisturbed.end()}, {kernels.begin(), kernels.end()});
  const auto end = [](double value) {
    return std::isfinite(value) ? Nullable<Number>(value) : std::nullopt;
  };
  busy.share = share.estimate;
  busy.low = end(share.low);
  busy.high = end(share.high);
  return busy;
}

/// A region with so many kernels in a lap shows what the collector adds to each kernel. With fewer,
/// the spread of the laps' times is larger.
constexpr double kManyKernels = 1000;

}  // namespace

double kernel_excess(const std::vector<record::Profile>& profiles) {
  double most = 0;
  for (const record::Profile& profile : profiles) {
    if (!profile.regions) continue;
    for (const auto& [name, region] : *profile.regions) {
      const Seconds* kernels = known(region.lap_kernel_seconds);
      const Seconds* undisturbed = known(region.undisturbed_seconds);
      const int64_t* count = known(region.kernels);
      if (kernels == nullptr || undisturbed == nullptr || undisturbed->empty() ||
          count == nullptr || *count == 0)
        continue;
      const double of_lap = static_cast<double>(*count) / static_cast<double>(kernels->size());
      if (of_lap < kManyKernels) continue;
      most = std::max(most, (mean(*kernels) - mean(*undisturbed)) / of_lap);
    }
  }
  return most;
}

Nullable<record::BusyShare> busy_within(const record::ProfiledRegion& region, int64_t laps,
                                        double excess) {
  const record::BusyShare* measured = known(region.busy);
  const Seconds* undisturbed = known(region.undisturbed_seconds);
  const int64_t* count = known(region.kernels);
  if (measured == nullptr || undisturbed == nullptr || count == nullptr) return std::nullopt;
  record::BusyShare busy = *measured;
  const double kernels = static_cast<double>(*count) / static_cast<double>(laps);
  if (busy.low) busy.low = std::max(0.0, *busy.low - kernels * excess / mean(*undisturbed));
  const auto at_most_all = [](Number& share) { share = std::min(1.0, static_cast<double>(share)); };
  at_most_all(busy.share);
  if (busy.low) at_most_all(*busy.low);
  if (busy.high) at_most_all(*busy.high);
  return busy;
}

std::vector<record::Profile> undisturbed_laps(const Config& config, int64_t laps,
                                              const std::string& only, std::string& problem) {
  const std::filesystem::path file = config.output / kUndisturbed;
  std::filesystem::remove(file);
  std::vector<std::string> arguments = profile_arguments(config, laps, only);
  arguments.emplace_back("--undisturbed");
  const int code = run_program(own_program(), std::move(arguments), {.out = STDERR_FILENO});
  if (code != 0) problem = fmt::format("the laps without a collector ended with code {}", code);
  std::vector<record::Profile> profiles;
  if (std::filesystem::exists(file)) {
    for (record::Any& record : read_journal(file)) {
      if (auto* profile = std::get_if<record::Profile>(&record))
        profiles.push_back(std::move(*profile));
    }
  }
  std::filesystem::remove(file);
  return profiles;
}

bool add_busy(record::Profile& profile, const std::vector<record::Profile>& undisturbed) {
  const auto found = std::ranges::find(undisturbed, profile.case_name, &record::Profile::case_name);
  const bool timed = found != undisturbed.end();
  if (!profile.regions) return timed;
  for (auto& [name, region] : *profile.regions) {
    region.undisturbed_seconds = Nullable<Seconds>();
    region.busy = Nullable<record::BusyShare>();
    // A phase ends with a wait in this process, and with none in the other.
    if (!timed || name.find('.') != name.npos || !found->regions) continue;
    const auto its = found->regions->find(name);
    if (its == found->regions->end() || !its->second.lap_seconds) continue;
    region.undisturbed_seconds = Nullable<Seconds>(*its->second.lap_seconds);
    if (const Seconds* kernels = known(region.lap_kernel_seconds))
      region.busy = busy_share(*kernels, *its->second.lap_seconds);
  }
  return timed;
}

}  // namespace rtfx
