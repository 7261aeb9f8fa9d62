#include "harness/results/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "harness/scoring/exactness.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr auto kRatio = Metric::Change::ratio;
constexpr auto kDifference = Metric::Change::difference;

using Value = std::optional<double>;

Value number(const Nullable<Number>& value) { return value ? Value(*value) : std::nullopt; }

template <class T>
Value number(const Optional<T>& value) {
  const auto* there = known(value);
  return there == nullptr ? std::nullopt : Value(*there);
}

/// The errors are integers, of which none is null.
template <int64_t record::WordErrors::*kErrors>
Value errors(const record::Run& run) {
  return static_cast<double>(run.wer.*kErrors);
}

template <Optional<Nullable<Number>> record::Boosted::*kShare>
Value boosted(const record::Run& run) {
  const record::Boosted* field = known(run.boosted);
  return field == nullptr ? std::nullopt : number(field->*kShare);
}

Value oracle_wer(const record::Run& run) {
  const record::OracleErrors* field = known(run.oracle_wer);
  return field == nullptr ? std::nullopt : number(field->wer);
}

Value counter(const record::Run& run, const char* name) {
  if (!run.counters) return std::nullopt;
  const auto found = run.counters->find(name);
  return found == run.counters->end() ? std::nullopt : Value(found->second);
}

Value host_reads(const record::Run& run) { return counter(run, "host_reads"); }

/// The share of all that was done in vain; absent without a decoder that counts both.
Value wasted(const Value& all, const Value& needed) {
  return all && needed && *all > 0 ? Value(1 - *needed / *all) : std::nullopt;
}

Value wasted_joint(const record::Run& run) {
  return wasted(counter(run, "joint_rows"), counter(run, "joint_rows_needed"));
}

Value wasted_predictions(const record::Run& run) {
  return wasted(counter(run, "pred_rows"), counter(run, "pred_rows_needed"));
}

Value share_of_exact(const record::Run& run) {
  int64_t exact = 0, all = 0;
  if (!run.exactness) return std::nullopt;
  for (const auto& [grade, count] : run.exactness->grades) {
    all += count;
    if (grade == "bitwise" || grade == "exact") exact += count;
  }
  return all == 0 ? std::nullopt : Value(static_cast<double>(exact) / static_cast<double>(all));
}

Value grade_as_number(const record::Run& run) {
  if (!run.exactness || run.exactness->grade == "baseline") return std::nullopt;
  return static_cast<int>(grade_names().size()) - 1 -
         static_cast<int>(grade_of(run.exactness->grade));
}

Value wall_rtfx(const record::Run& run) {
  if (!run.wall_seconds || *run.wall_seconds <= 0) return std::nullopt;
  return run.dataset.audio_seconds / *run.wall_seconds;
}

Value collisions(const record::Run& run) {
  const Value pairs = counter(run, "merge_pairs"), found = counter(run, "hash_collisions");
  return pairs && found && *pairs > 0 ? Value(*found / *pairs) : std::nullopt;
}

}  // namespace

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = {
      {"rtfx.total", nullptr, "x",
       "seconds of audio per second from samples to text: over the sum of the regions, or over the "
       "wall clock of a pass in the mode `throughput`, which includes reading where `audio` is "
       "`files`",
       1, kRatio, 0.05, true},
      {"rtfx.first_pass",
       nullptr,
       "x",
       "seconds of audio per second of the first overlapped pass of a case in its process",
       1,
       kRatio,
       {},
       true},
      {"tokens.per_second",
       nullptr,
       "tokens",
       "tokens of the results per second of audio",
       0,
       kDifference,
       {},
       true},
      {"tokens.reference_per_second",
       nullptr,
       "tokens",
       "tokens of the reference texts per second of their audio",
       0,
       kDifference,
       {}},
      {"rtfx.wall",
       wall_rtfx,
       "x",
       "seconds of audio per second by a clock around all regions, gaps between them included",
       1,
       kRatio,
       {},
       true},
      {"rtfx.encode_decode",
       nullptr,
       "x",
       "seconds of audio per second of encoder, decoder and the copy to the host",
       1,
       kRatio,
       {}},
      {"rtfx.decode", nullptr, "x", "seconds of audio per second of the decoder alone", 1, kRatio,
       0.05, true},
      {"share.decode", nullptr, "", "time of the decoder / total time", 0, kDifference, {}},
      {"wer", [](const record::Run& run) { return number(run.wer.wer); }, "",
       "word errors / reference words of the whole set", -1, kDifference, 0.001, true},
      {"wer.substitutions",
       errors<&record::WordErrors::substitutions>,
       "words",
       "words substituted",
       -1,
       kDifference,
       {},
       true},
      {"wer.deletions",
       errors<&record::WordErrors::deletions>,
       "words",
       "words deleted",
       -1,
       kDifference,
       {},
       true},
      {"wer.insertions",
       errors<&record::WordErrors::insertions>,
       "words",
       "words inserted",
       -1,
       kDifference,
       {},
       true},
      {"cer",
       [](const record::Run& run) { return number(run.wer.cer); },
       "",
       "character errors / reference characters, without spaces",
       -1,
       kDifference,
       {},
       true},
      {"wer.oracle",
       oracle_wer,
       "",
       "word error rate if each utterance had the best text of its n-best list",
       -1,
       kDifference,
       {},
       true},
      {"boosted.recall",
       boosted<&record::Boosted::recall>,
       "",
       "share of the boosted words' occurrences that are recognised",
       1,
       kDifference,
       {},
       true},
      {"boosted.precision",
       boosted<&record::Boosted::precision>,
       "",
       "share of the boosted words in the results that were said",
       1,
       kDifference,
       {},
       true},
      {"boosted.f_score",
       boosted<&record::Boosted::f_score>,
       "",
       "F-score of phrases",
       1,
       kDifference,
       {},
       true},
      {"exact.grade",
       grade_as_number,
       "grade",
       "the worst grade against the baseline: 5 bitwise, 4 exact, 3 rounding, 2 text, 1 wer, "
       "0 different",
       1,
       kDifference,
       {}},
      {"exact.rate",
       share_of_exact,
       "",
       "share of utterances graded bitwise or exact against the baseline",
       1,
       kDifference,
       {}},
      {"batch_ms.first",
       nullptr,
       "ms",
       "time of the first batch of a case's first pass, from samples to text",
       -1,
       kRatio,
       {},
       true},
      {"batch_ms.p50",
       nullptr,
       "ms",
       "time of a batch from samples to text, the median of a round",
       -1,
       kRatio,
       {},
       true},
      {"batch_ms.p95",
       nullptr,
       "ms",
       "time of a batch from samples to text, the 95th percentile of a round",
       -1,
       kRatio,
       {},
       true},
      {"batch_ms.p99",
       nullptr,
       "ms",
       "time of a batch from samples to text, the 99th percentile of a round",
       -1,
       kRatio,
       {},
       true},
      {"busy.load",
       nullptr,
       "",
       "share of an overlapped pass in which its stage for reading audio files is busy",
       0,
       kDifference,
       {},
       true},
      {"busy.copy",
       nullptr,
       "",
       "share of an overlapped pass in which its stage for padding and copying to the device is "
       "busy",
       0,
       kDifference,
       {},
       true},
      {"busy.encoder",
       nullptr,
       "",
       "share of an overlapped pass in which its stage for features and encoder is busy",
       0,
       kDifference,
       {},
       true},
      {"busy.decode",
       nullptr,
       "",
       "share of an overlapped pass in which its stage for the decoder is busy",
       0,
       kDifference,
       {},
       true},
      {"busy.texts",
       nullptr,
       "",
       "share of an overlapped pass in which its stage for copying results back and making texts "
       "is busy",
       0,
       kDifference,
       {},
       true},
      {"memory.kept_mib",
       nullptr,
       "MiB",
       "GPU memory that the decoder keeps",
       -1,
       kDifference,
       {},
       true},
      {"memory.peak_mib",
       nullptr,
       "MiB",
       "the most GPU memory that the decoder holds while it decodes",
       -1,
       kDifference,
       {},
       true},
      {"energy.joules_per_hour",
       nullptr,
       "J",
       "energy of the GPU for an hour of audio, from samples to text, the decoder alone on it",
       -1,
       kRatio,
       {},
       true},
      {"host_reads",
       host_reads,
       "reads",
       "waits of the decoder for the device to learn a value, in a round",
       -1,
       kDifference,
       {},
       true},
      {"wasted.joint",
       wasted_joint,
       "",
       "share of the joint network's rows whose decision no utterance needed (option count_rows)",
       -1,
       kDifference,
       {},
       true},
      {"wasted.prediction",
       wasted_predictions,
       "",
       "share of the prediction network's rows that no utterance needed (option count_rows)",
       -1,
       kDifference,
       {},
       true},
      {"collisions",
       collisions,
       "",
       "share of the compared pairs of texts that differ and have one hash (option "
       "count_collisions)",
       -1,
       kDifference,
       {},
       true},
      {"launches",
       [](const record::Run& run) { return run.profile.launches; },
       "launches",
       "kernels that the host launches while decoding, in a lap of the profile",
       -1,
       kDifference,
       {},
       true},
      {"graph_launches",
       [](const record::Run& run) { return run.profile.graph_launches; },
       "launches",
       "CUDA graphs that the host launches while decoding, in a lap of the profile",
       -1,
       kDifference,
       {},
       true},
      {"idle.share",
       [](const record::Run& run) { return run.profile.idle; },
       "",
       "share of the decoder's time without a running kernel, by the profile",
       -1,
       kDifference,
       {},
       true},
      {"stream.total_ms",
       nullptr,
       "ms",
       "latency of a request of simulated streams: queue and work, the mean",
       -1,
       kRatio,
       {},
       true},
      {"stream.total_ms.p50",
       nullptr,
       "ms",
       "latency of a request of simulated streams, the median",
       -1,
       kRatio,
       {},
       true},
      {"stream.total_ms.p99",
       nullptr,
       "ms",
       "latency of a request of simulated streams, the 99th percentile",
       -1,
       kRatio,
       {},
       true},
      {"stream.queue_ms",
       nullptr,
       "ms",
       "time that a request of simulated streams waits for its batch, the mean",
       -1,
       kDifference,
       {},
       true},
      {"stream.compute_ms",
       nullptr,
       "ms",
       "time that the batch of a request of simulated streams takes, the mean",
       -1,
       kRatio,
       {},
       true},
      {"stream.rtfx",
       nullptr,
       "x",
       "seconds of new audio per second until the last request was done",
       1,
       kRatio,
       {},
       true},
      {"streams.sustained",
       nullptr,
       "streams",
       "the most simulated streams that were confirmed by the rule, or up to which no queue grew "
       "all "
       "the time",
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

std::optional<double> value_in(const Metric& metric, const record::Round& round) {
  if (!is_shown(record::fields(round), metric.key)) return std::nullopt;
  if (metric.value != nullptr) {
    const auto* run = std::get_if<record::Run>(&round);
    return run == nullptr ? std::nullopt : metric.value(*run);
  }
  const record::Figures& figures = record::metrics(round);
  const auto found = figures.find(metric.key);
  return found == figures.end() ? std::nullopt : number(found->second);
}

std::vector<double> metric_values(const Metric& metric, const record::Rounds& rounds) {
  std::vector<double> values;
  for (const record::Round& round : rounds) {
    if (const auto value = value_in(metric, round)) values.push_back(*value);
  }
  return values;
}

namespace {

/// counted_values() with the numbers of their rounds.
std::vector<std::pair<int64_t, double>> counted(const Metric& metric, const CaseSummary& summary) {
  std::vector<std::pair<int64_t, double>> found;
  const auto add = [&](const record::Round& round) {
    if (const auto value = value_in(metric, round))
      found.emplace_back(record::number_of(round), *value);
  };
  for (const record::Round* round : summary.counted_rounds().rounds) add(*round);
  if (found.empty()) std::ranges::for_each(summary.rounds, add);
  return found;
}

}  // namespace

std::vector<double> counted_values(const Metric& metric, const CaseSummary& summary) {
  std::vector<double> values;
  for (const auto& [round, value] : counted(metric, summary)) values.push_back(value);
  return values;
}

std::optional<Interval> ratio_within_run(const Metric& metric, const CaseSummary& from,
                                         const CaseSummary& to) {
  const auto numbered = counted(metric, to);
  const std::map<int64_t, double> others(numbered.begin(), numbered.end());
  std::vector<double> a, b;  // of the rounds that count for both
  for (const auto& [round, value] : counted(metric, from)) {
    const auto other = others.find(round);
    if (other == others.end()) continue;
    a.push_back(value);
    b.push_back(other->second);
  }
  if (a.size() >= 2) return paired_ratio(a, b);
  a = counted_values(metric, from);
  b = counted_values(metric, to);
  return a.empty() || b.empty() ? std::nullopt : std::optional(unpaired_ratio(a, b));
}

std::optional<double> measured_noise_floor(const ResultSet& results, const std::string& group,
                                           const Metric& metric) {
  for (const CaseResult& control : results.cases) {
    if (control.control_of().empty() || control.group() != group) continue;
    for (const CaseResult& original : results.cases) {
      if (original.decoder() != control.control_of() || original.group() != group) continue;
      if (const auto ratio = ratio_within_run(metric, original.summary, control.summary))
        return noise_floor(*ratio);
    }
  }
  return std::nullopt;
}

namespace {

/// The interval of a metric with at least one value.
Interval interval_of(const Metric& metric, const std::vector<double>& values,
                     const Summary& summary) {
  if (std::string_view(metric.key) == "exact.grade") return {summary.min, summary.min, summary.min};
  if (summary.min == summary.max && metric.change == kDifference)
    return {summary.mean, summary.mean, summary.mean};
  return mean_interval(values);
}

}  // namespace

std::optional<Interval> metric_interval(const Metric& metric, const CaseResult& result) {
  const auto figure = figure_of(metric, result);
  return figure ? std::optional(figure->interval) : std::nullopt;
}

std::optional<Figure> figure_of(const Metric& metric, const CaseResult& result) {
  const std::vector<double> values = metric_values(metric, result.rounds());
  if (values.empty()) return std::nullopt;
  const Summary summary = summarize(values);
  return Figure{interval_of(metric, values, summary), summary.sd, values.size()};
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
      figures[metric.key].update({{"sd", figure->sd}, {"rounds", figure->rounds}});
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
