#include "harness/results/metrics.h"

#include <algorithm>

#include "base/error.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr auto kRatio = Metric::Change::ratio;
constexpr auto kDifference = Metric::Change::difference;

/// Null where the round has no such value, or none that may be shown.
json value_of(const std::string& key, const json& round) {
  if (!is_shown(round, key)) return nullptr;
  if (key == "wer") return round.at("wer").at("wer");
  if (key == "boosted.recall") return round.value("/boosted/recall"_json_pointer, json());
  if (key == "boosted.precision") return round.value("/boosted/precision"_json_pointer, json());
  if (key.starts_with("rtfx.") || key.starts_with("share.")) return round.at("metrics").at(key);
  if (key != "exact.rate") return round.at("metrics").value(key, json());
  const json& exactness = round.at("exactness");
  if (!exactness.is_object() || exactness.at("grades").empty()) return nullptr;
  int64_t exact = 0, all = 0;
  for (const auto& [grade, count] : exactness["grades"].items()) {
    all += count.get<int64_t>();
    if (grade == "bitwise" || grade == "exact") exact += count.get<int64_t>();
  }
  return all == 0 ? json() : json(static_cast<double>(exact) / static_cast<double>(all));
}

}  // namespace

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = {
      {"rtfx.total", "x", "seconds of audio per second from samples to text", 1, kRatio, 0.05,
       true},
      {"rtfx.encode_decode", "x", "the same for encoder, decoder and the copy to the host", 1,
       kRatio, std::nullopt},
      {"rtfx.decode", "x", "the same for the decoder alone", 1, kRatio, 0.05, true},
      {"share.decode", "", "time of the decoder / total time", 0, kDifference, std::nullopt},
      {"wer", "", "word errors / reference words of the whole set", -1, kDifference, 0.001, true},
      {"boosted.recall", "", "share of the boosted words' occurrences that are recognised", 1,
       kDifference, std::nullopt},
      {"boosted.precision", "", "share of the boosted words in the results that were said", 1,
       kDifference, std::nullopt},
      {"exact.rate", "", "share of utterances graded bitwise or exact against the baseline", 1,
       kDifference, std::nullopt},
      {"batch_ms.p50", "ms", "time of a batch from samples to text, the median of a round", -1,
       kRatio, std::nullopt, true},
      {"batch_ms.p95", "ms", "the same, its 95th percentile", -1, kRatio, std::nullopt, true},
      {"batch_ms.p99", "ms", "the same, its 99th percentile", -1, kRatio, std::nullopt, true},
      {"memory.kept_mib", "MiB", "GPU memory that the decoder keeps", -1, kDifference, std::nullopt,
       true},
      {"memory.peak_mib", "MiB", "the most that it holds while it decodes", -1, kDifference,
       std::nullopt, true},
      {"energy.joules_per_hour", "J",
       "energy of the GPU for an hour of audio, from samples to text, the decoder alone on it", -1,
       kRatio, std::nullopt, true},
  };
  return all;
}

const Metric& find_metric(std::string_view key, std::string_view where) {
  std::vector<std::string> allowed;
  for (const Metric& metric : metrics()) {
    if (metric.key == key) return metric;
    allowed.emplace_back(metric.key);
  }
  throw unknown_name(where, "metric", key, allowed);
}

std::vector<double> metric_values(const Metric& metric, const std::vector<json>& rounds) {
  std::vector<double> values;
  for (const json& round : rounds) {
    const json value = value_of(metric.key, round);
    if (value.is_number()) values.push_back(value);
  }
  return values;
}

std::optional<Interval> metric_interval(const Metric& metric, const CaseResult& result) {
  const std::vector<double> values = metric_values(metric, result.rounds);
  if (values.empty()) return std::nullopt;
  const Summary summary = summarize(values);
  if (summary.min == summary.max && metric.change == kDifference)
    return Interval{summary.mean, summary.mean, summary.mean};
  const std::string key = metric.key;
  if (key == "rtfx.total" || key == "rtfx.decode") {
    const auto times = result.batch_times(key.substr(5));
    constexpr uint64_t kSeed = 1;
    if (times) return bootstrap_rtfx(*times, kSeed);
  }
  return mean_interval(values);
}

}  // namespace rtfx
