#include "harness/run/estimate.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "base/files.h"
#include "base/printable.h"
#include "harness/config/plan.h"
#include "harness/results/journal.h"
#include "harness/results/summaries.h"
#include "models/dtypes.h"

namespace rtfx {

namespace {

constexpr double kFrames = 12.5;   // encoder frames for a second of audio
constexpr double kOperations = 2;  // operations for a parameter and frame: multiply and add
constexpr double kBatchSeconds =
    0.03;  // upper bound of the time for launches and copies of a batch

/// A range of speeds in operations per second. Small models and small batches are at its lower end.
struct Speed {
  double low, high;
};
constexpr Speed kGpu{0.3e12, 200e12};  // assumed, and wide on purpose

/// Returns the speed of an encoder's products on this CPU, measured with matrices of its width.
/// Encoders reach at least a tenth of it, since they also do other work.
Speed cpu_speed(int64_t width, at::ScalarType dtype, int64_t threads) {
  constexpr int64_t kRows = 128;
  constexpr auto kLeast = std::chrono::milliseconds(30);
  const c10::InferenceMode inference;
  const at::Tensor a = at::ones({kRows, width}, dtype), b = at::ones({width, 4 * width}, dtype);
  at::matmul(a, b);  // prepares the library
  double operations = 0;
  const auto begin = std::chrono::steady_clock::now();
  auto took = std::chrono::steady_clock::duration::zero();
  for (; took < kLeast; took = std::chrono::steady_clock::now() - begin) {
    at::matmul(a, b);
    operations += 2.0 * kRows * static_cast<double>(4 * width * width);
  }
  const double share = threads > 0 ? static_cast<double>(threads) / at::get_num_threads() : 1;
  const double speed = share * operations / std::chrono::duration<double>(took).count();
  return {speed / 12, 1.2 * speed};
}

int64_t rounds_of(const Protocol& protocol, bool most) {
  const bool extra = most && protocol.precision > 0;
  return protocol.warmup_rounds + protocol.measured_rounds + (extra ? protocol.extra_rounds : 0);
}

/// Returns the mean over the rounds of a figure that each of them has.
double mean_of(const CaseSummary& summary, const auto& figure) {
  double sum = 0;
  for (const record::Round& round : summary.rounds) {
    if (const auto* run = std::get_if<record::Run>(&round)) sum += figure(*run);
  }
  return sum / static_cast<double>(summary.rounds.size());
}

double mean_total(const CaseSummary& summary) {
  return mean_of(summary, [](const record::Run& run) -> double { return run.total_seconds; });
}

/// Returns the seconds of a case in a round without the encoder's pass, which cases share.
double own_seconds(const CaseSummary& summary) {
  double seconds = 0;
  for (const char* region : {"decode", "d2h", "detokenize"}) {
    seconds += mean_of(summary, [&](const record::Run& run) -> double {
      const auto found = run.regions.find(region);
      return found == run.regions.end() ? 0 : static_cast<double>(found->second.host_seconds);
    });
  }
  return seconds;
}

/// Returns the seconds of a round of the group, if the journal has all of its cases.
std::optional<double> measured_round(const LoadedInputs& inputs, const CaseGroup& group,
                                     const std::map<std::string, CaseSummary>& known) {
  const size_t utterances = inputs.datasets()[group.dataset].dataset.utterances.size();
  double seconds = 0;
  for (const PlannedDecoder& decoder : group.decoders) {
    const auto found = known.find(decoder.case_name);
    if (found == known.end() || found->second.rounds.empty()) return std::nullopt;
    const CaseSummary& summary = found->second;
    const record::Case& about = summary.about();
    if (about.dataset.utterances != static_cast<int64_t>(utterances)) return std::nullopt;
    const bool gpu = about.device.starts_with("cuda");
    if (gpu != runs_on_gpu(inputs.config())) return std::nullopt;
    const bool overlapped = summary.last_run() != nullptr && summary.last_run()->pipeline;
    if (overlapped != inputs.config().protocol.overlapped()) return std::nullopt;
    if (overlapped) {
      seconds += std::max(mean_total(summary), inputs.config().protocol.steady_seconds);
      continue;
    }
    if (seconds == 0) seconds = mean_total(summary) - own_seconds(summary);
    seconds += own_seconds(summary);
  }
  return seconds;
}

std::optional<double> measured(const LoadedInputs& inputs, const std::vector<CaseGroup>& plan) {
  const Config& config = inputs.config();
  const auto journal = config.output / "journal.jsonl";
  if (!std::filesystem::exists(plain_or_gzip(journal))) return std::nullopt;
  std::map<std::string, CaseSummary> known;
  for (CaseSummary& summary : summarize_cases(read_journal(journal)))
    known.emplace(summary.case_name(), std::move(summary));
  double seconds = 0;
  for (const CaseGroup& group : plan) {
    const auto round = measured_round(inputs, group, known);
    if (!round) return std::nullopt;
    seconds += *round * static_cast<double>(rounds_of(config.protocol, false));
  }
  return seconds;
}

}  // namespace

bool runs_on_gpu(const Config& config) {
  return config.device.starts_with("cuda") ||
         (config.device == "auto" && c10::cuda::device_count() > 0);
}

Estimate estimate(const LoadedInputs& inputs, const std::vector<CaseGroup>& plan) {
  const Config& config = inputs.config();
  const auto least = static_cast<double>(rounds_of(config.protocol, false));
  const auto most = static_cast<double>(rounds_of(config.protocol, true));
  const bool gpu = runs_on_gpu(config);
  const auto known = measured(inputs, plan);
  std::map<std::pair<int64_t, at::ScalarType>, Speed> speeds;  // indexed by width and dtype
  const auto speed_of = [&](const CaseGroup& group) {
    const int64_t width = inputs.checkpoints()[group.model].config.encoder.width;
    const at::ScalarType dtype = parse_dtypes(group.dtype, "dtypes").encoder;
    if (gpu || known || dtype == at::kFloat8_e4m3fn) return kGpu;
    const auto [found, fresh] = speeds.try_emplace({width, dtype});
    if (fresh) found->second = cpu_speed(width, dtype, config.threads);
    return found->second;
  };
  double slowest = std::numeric_limits<double>::infinity(), fastest = 0;
  Estimate all;
  double energy = 0;  // time of the passes that measure energy
  for (const CaseGroup& group : plan) {
    if (gpu) energy += config.protocol.energy_seconds * static_cast<double>(group.decoders.size());
  }
  size_t unknown = 0;
  for (const CaseGroup& group : plan) {
    std::vector<double> seconds;
    for (const Utterance& utterance : inputs.datasets()[group.dataset].dataset.utterances) {
      seconds.push_back(utterance.seconds);
      unknown += utterance.seconds <= 0 ? 1 : 0;
    }
    BatchRule rule = group.rule;
    if (rule.largest) rule.size = static_cast<double>(seconds.size());
    const auto batches = make_batches(seconds, config.sort, rule, 1);
    double padded = 0;
    for (const auto& batch : batches) {
      double longest = 0;
      for (const size_t i : batch) longest = std::max(longest, seconds[i]);
      padded += longest * static_cast<double>(batch.size());
    }
    const double work = kOperations * kFrames * padded *
                        static_cast<double>(inputs.checkpoints()[group.model].parameters);
    const Speed speed = speed_of(group);
    slowest = std::min(slowest, speed.low);
    fastest = std::max(fastest, speed.high);
    const auto decoders = static_cast<double>(group.decoders.size());
    const double encoders = config.protocol.overlapped() ? decoders : 1;  // passes of the encoder
    // A round that repeats its passes ends with the first pass beyond `steady`.
    const double steady =
        config.protocol.overlapped() ? decoders * config.protocol.steady_seconds : 0;
    all.low += least * std::max(steady, encoders * work / speed.high);
    all.high += most * (steady + (encoders + decoders) * work / speed.low +
                        kBatchSeconds * static_cast<double>(batches.size()));
    all.audio_seconds += least * encoders * std::accumulate(seconds.begin(), seconds.end(), 0.0);
    all.passes += static_cast<int64_t>(least);
  }
  if (known) {
    all.low = all.high = *known + energy;
    all.basis =
        fmt::format("as {} measured these cases", (config.output / "journal.jsonl").string());
    return all;
  }
  all.low += energy;
  all.high += energy;
  all.basis = fmt::format(
      "encoders of this size at {:.3g} to {:.3g} billion operations a second ({}); each decoder as "
      "much again at most, which searches on a CPU exceed",
      slowest / 1e9, fastest / 1e9,
      gpu ? "assumed of a GPU" : "as products of matrices take on this CPU");
  if (config.stream) {
    all.basis += fmt::format("; `rtfx stream` takes {:g} s for each decoder and number of streams",
                             config.stream->seconds);
  }
  if (unknown > 0) all.basis += "; utterances whose length no header tells are left out";
  return all;
}

std::string batch_notice(const LoadedInputs& inputs, const CaseGroup& group) {
  const size_t utterances = inputs.datasets()[group.dataset].dataset.utterances.size();
  if (group.rule.by_seconds || group.rule.largest ||
      static_cast<double>(utterances) >= group.rule.size)
    return "";
  return fmt::format("{}: the dataset has {}, so a batch of {:g} holds no more",
                     group.decoders.front().case_name,
                     counted(static_cast<int64_t>(utterances), "utterance"), group.rule.size);
}

std::string time_text(const Estimate& time) {
  const std::string low = duration_text(time.low), high = duration_text(time.high);
  return low == high ? "about " + low : fmt::format("between {} and {}", low, high);
}

std::string duration_text(double seconds) {
  if (seconds < 1) return "1 s";
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<int64_t>(std::lround(seconds / 60));
  if (minutes < 90) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace rtfx
