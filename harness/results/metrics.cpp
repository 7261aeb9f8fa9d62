#include "harness/results/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "harness/scoring/exactness.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr auto kRatio = Metric::Change::ratio;
constexpr auto kDifference = Metric::Change::difference;

json share_of_exact(const json& round) {
  const json grades = round.value("/exactness/grades"_json_pointer, json::object());
  int64_t exact = 0, all = 0;
  for (const auto& [grade, count] : grades.items()) {
    all += count.get<int64_t>();
    if (grade == "bitwise" || grade == "exact") exact += count.get<int64_t>();
  }
  return all == 0 ? json() : json(static_cast<double>(exact) / static_cast<double>(all));
}

json grade_as_number(const json& round) {
  const json grade = round.value("/exactness/grade"_json_pointer, json());
  if (!grade.is_string() || grade == "baseline") return nullptr;
  return static_cast<int>(grade_names().size()) - 1 -
         static_cast<int>(grade_of(grade.get<std::string>()));
}

json wall_rtfx(const json& round) {
  const double wall = round.value("wall_seconds", 0.0);
  return wall > 0 ? json(round.at("dataset").at("audio_seconds").get<double>() / wall) : json();
}

/// Null where the round has no such value, or none that may be shown.
json value_of(const Metric& metric, const json& round) {
  const std::string_view key = metric.key;
  if (!is_shown(round, key)) return nullptr;
  if (*metric.where != '\0') return round.value(json::json_pointer(metric.where), json());
  if (key == "rtfx.wall") return wall_rtfx(round);
  if (key == "exact.rate") return share_of_exact(round);
  RTFX_CHECK(key == "exact.grade", "a metric without a place");
  return grade_as_number(round);
}

}  // namespace

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = {
      {"rtfx.total", "/metrics/rtfx.total", "x",
       "seconds of audio per second from samples to text, the regions summed up", 1, kRatio, 0.05,
       true},
      {"rtfx.wall",
       "",
       "x",
       "seconds of audio per second by a clock around all regions, gaps between them included",
       1,
       kRatio,
       {},
       true},
      {"rtfx.encode_decode",
       "/metrics/rtfx.encode_decode",
       "x",
       "seconds of audio per second of encoder, decoder and the copy to the host",
       1,
       kRatio,
       {}},
      {"rtfx.decode", "/metrics/rtfx.decode", "x",
       "seconds of audio per second of the decoder alone", 1, kRatio, 0.05, true},
      {"share.decode",
       "/metrics/share.decode",
       "",
       "time of the decoder / total time",
       0,
       kDifference,
       {}},
      {"wer", "/wer/wer", "", "word errors / reference words of the whole set", -1, kDifference,
       0.001, true},
      {"wer.substitutions",
       "/wer/substitutions",
       "words",
       "words substituted",
       -1,
       kDifference,
       {},
       true},
      {"wer.deletions", "/wer/deletions", "words", "words deleted", -1, kDifference, {}, true},
      {"wer.insertions", "/wer/insertions", "words", "words inserted", -1, kDifference, {}, true},
      {"cer",
       "/wer/cer",
       "",
       "character errors / reference characters, without spaces",
       -1,
       kDifference,
       {},
       true},
      {"wer.oracle",
       "/oracle_wer/wer",
       "",
       "word error rate if each utterance had the best text of its n-best list",
       -1,
       kDifference,
       {},
       true},
      {"boosted.recall",
       "/boosted/recall",
       "",
       "share of the boosted words' occurrences that are recognised",
       1,
       kDifference,
       {},
       true},
      {"boosted.precision",
       "/boosted/precision",
       "",
       "share of the boosted words in the results that were said",
       1,
       kDifference,
       {},
       true},
      {"boosted.f_score", "/boosted/f_score", "", "F-score of phrases", 1, kDifference, {}, true},
      {"exact.grade",
       "",
       "grade",
       "the worst grade against the baseline: 5 bitwise, 4 exact, 3 rounding, 2 text, 1 wer, "
       "0 different",
       1,
       kDifference,
       {}},
      {"exact.rate",
       "",
       "",
       "share of utterances graded bitwise or exact against the baseline",
       1,
       kDifference,
       {}},
      {"batch_ms.p50",
       "/metrics/batch_ms.p50",
       "ms",
       "time of a batch from samples to text, the median of a round",
       -1,
       kRatio,
       {},
       true},
      {"batch_ms.p95",
       "/metrics/batch_ms.p95",
       "ms",
       "time of a batch from samples to text, the 95th percentile of a round",
       -1,
       kRatio,
       {},
       true},
      {"batch_ms.p99",
       "/metrics/batch_ms.p99",
       "ms",
       "time of a batch from samples to text, the 99th percentile of a round",
       -1,
       kRatio,
       {},
       true},
      {"busy.load",
       "/metrics/busy.load",
       "",
       "share of an overlapped pass in which its stage for reading audio files is busy",
       0,
       kDifference,
       {},
       true},
      {"busy.copy",
       "/metrics/busy.copy",
       "",
       "share of an overlapped pass in which its stage for padding and copying to the device is "
       "busy",
       0,
       kDifference,
       {},
       true},
      {"busy.encoder",
       "/metrics/busy.encoder",
       "",
       "share of an overlapped pass in which its stage for features and encoder is busy",
       0,
       kDifference,
       {},
       true},
      {"busy.decode",
       "/metrics/busy.decode",
       "",
       "share of an overlapped pass in which its stage for the decoder is busy",
       0,
       kDifference,
       {},
       true},
      {"busy.texts",
       "/metrics/busy.texts",
       "",
       "share of an overlapped pass in which its stage for copying results back and making texts "
       "is busy",
       0,
       kDifference,
       {},
       true},
      {"memory.kept_mib",
       "/metrics/memory.kept_mib",
       "MiB",
       "GPU memory that the decoder keeps",
       -1,
       kDifference,
       {},
       true},
      {"memory.peak_mib",
       "/metrics/memory.peak_mib",
       "MiB",
       "the most GPU memory that the decoder holds while it decodes",
       -1,
       kDifference,
       {},
       true},
      {"energy.joules_per_hour",
       "/metrics/energy.joules_per_hour",
       "J",
       "energy of the GPU for an hour of audio, from samples to text, the decoder alone on it",
       -1,
       kRatio,
       {},
       true},
      {"host_reads",
       "/counters/host_reads",
       "reads",
       "waits of the decoder for the device to learn a value, in a round",
       -1,
       kDifference,
       {},
       true},
      {"launches",
       "/profile/launches",
       "launches",
       "kernels that the host launches while decoding, in a lap of the profile",
       -1,
       kDifference,
       {},
       true},
      {"graph_launches",
       "/profile/graph_launches",
       "launches",
       "CUDA graphs that the host launches while decoding, in a lap of the profile",
       -1,
       kDifference,
       {},
       true},
      {"idle.share",
       "/profile/idle",
       "",
       "share of the decoder's time without a running kernel, by the profile",
       -1,
       kDifference,
       {},
       true},
      {"stream.total_ms",
       "/metrics/stream.total_ms",
       "ms",
       "latency of a request of simulated streams: queue and work, the mean",
       -1,
       kRatio,
       {},
       true},
      {"stream.total_ms.p50",
       "/metrics/stream.total_ms.p50",
       "ms",
       "latency of a request of simulated streams, the median",
       -1,
       kRatio,
       {},
       true},
      {"stream.total_ms.p99",
       "/metrics/stream.total_ms.p99",
       "ms",
       "latency of a request of simulated streams, the 99th percentile",
       -1,
       kRatio,
       {},
       true},
      {"stream.queue_ms",
       "/metrics/stream.queue_ms",
       "ms",
       "time that a request of simulated streams waits for its batch, the mean",
       -1,
       kDifference,
       {},
       true},
      {"stream.compute_ms",
       "/metrics/stream.compute_ms",
       "ms",
       "time that the batch of a request of simulated streams takes, the mean",
       -1,
       kRatio,
       {},
       true},
      {"stream.rtfx",
       "/metrics/stream.rtfx",
       "x",
       "seconds of new audio per second until the last request was done",
       1,
       kRatio,
       {},
       true},
      {"streams.sustained",
       "/metrics/streams.sustained",
       "streams",
       "the most simulated streams up to which no queue grew all the time",
       1,
       kDifference,
       {},
       true},
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
    const json value = value_of(metric, round);
    if (value.is_number()) values.push_back(value);
  }
  return values;
}

std::optional<Interval> rounds_interval(const Metric& metric, const CaseResult& result) {
  const std::vector<double> values = metric_values(metric, result.rounds);
  if (values.empty()) return std::nullopt;
  const Summary summary = summarize(values);
  if (std::string_view(metric.key) == "exact.grade")
    return Interval{summary.min, summary.min, summary.min};
  if (summary.min == summary.max && metric.change == kDifference)
    return Interval{summary.mean, summary.mean, summary.mean};
  return mean_interval(values);
}

std::optional<Interval> metric_interval(const Metric& metric, const CaseResult& result) {
  const auto over_rounds = rounds_interval(metric, result);
  const std::string key = metric.key;
  if (!over_rounds || (key != "rtfx.total" && key != "rtfx.decode")) return over_rounds;
  const auto times = result.batch_times(key.substr(5));
  if (!times) return over_rounds;
  constexpr uint64_t kSeed = 1;
  Interval interval = bootstrap_rtfx(*times, kSeed);
  interval.estimate = over_rounds->estimate;  // the journal rounds the times of batches
  return interval;
}

std::optional<Figure> figure_of(const Metric& metric, const CaseResult& result) {
  const auto interval = metric_interval(metric, result);
  if (!interval) return std::nullopt;
  const auto values = metric_values(metric, result.rounds);
  return Figure{*interval, summarize(values).sd, values.size()};
}

json to_json(const Interval& interval) {
  const auto end = [](double value) { return std::isfinite(value) ? json(value) : json(); };
  return {
      {"estimate", interval.estimate}, {"low", end(interval.low)}, {"high", end(interval.high)}};
}

json figures_json(const CaseResult& result) {
  json figures = json::object();
  for (const Metric& metric : metrics()) {
    if (const auto figure = figure_of(metric, result)) {
      figures[metric.key] = to_json(figure->interval);
      const json over_rounds = to_json(*rounds_interval(metric, result));
      figures[metric.key].update({{"sd", figure->sd},
                                  {"rounds", figure->rounds},
                                  {"rounds_low", over_rounds["low"]},
                                  {"rounds_high", over_rounds["high"]}});
    }
  }
  return figures;
}

json metrics_json() {
  json table = json::array();
  for (const Metric& m : metrics()) {
    table.push_back({{"name", m.key},
                     {"unit", m.unit},
                     {"direction", m.direction},
                     {"tolerance", m.tolerance ? json(*m.tolerance) : json()},
                     {"meaning", m.meaning}});
  }
  return table;
}

}  // namespace rtfx
