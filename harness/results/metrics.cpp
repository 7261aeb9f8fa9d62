#include "harness/results/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
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

/// Returns the share of evaluations that were wasted. Absent if the decoder does not count both
/// numbers.
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
       "Seconds of audio per second of work, from samples to text. The time is the sum of all "
       "regions. In the mode throughput, it is that of a whole pass, which may include the "
       "reading of files.",
       1, kRatio, 0.05, true},
      {"rtfx.first_pass",
       nullptr,
       "x",
       "Seconds of audio per second of the first pass of a case in its process. Only in the "
       "mode throughput.",
       1,
       kRatio,
       {},
       true},
      {"tokens.per_second",
       nullptr,
       "tokens",
       "Number of tokens in the results per second of audio.",
       0,
       kDifference,
       {},
       true},
      {"tokens.reference_per_second",
       nullptr,
       "tokens",
       "Number of tokens in the reference texts per second of their audio.",
       0,
       kDifference,
       {}},
      {"rtfx.wall",
       wall_rtfx,
       "x",
       "Seconds of audio per second of wall-clock time, which includes the time between regions.",
       1,
       kRatio,
       {},
       true},
      {"rtfx.encode_decode",
       nullptr,
       "x",
       "Seconds of audio per second of encoder, decoder and the copy of results to the host.",
       1,
       kRatio,
       {}},
      {"rtfx.decode", nullptr, "x", "Seconds of audio per second of the decoder alone.", 1, kRatio,
       0.05, true},
      {"share.decode",
       nullptr,
       "",
       "Share of the total time that the decoder takes.",
       0,
       kDifference,
       {}},
      {"wer", [](const record::Run& run) { return number(run.wer.wer); }, "",
       "Word error rate of the whole dataset: word errors / reference words.", -1, kDifference,
       0.001, true},
      {"wer.substitutions",
       errors<&record::WordErrors::substitutions>,
       "words",
       "Number of reference words that are replaced by another word.",
       -1,
       kDifference,
       {},
       true},
      {"wer.deletions",
       errors<&record::WordErrors::deletions>,
       "words",
       "Number of reference words that are missing in the results.",
       -1,
       kDifference,
       {},
       true},
      {"wer.insertions",
       errors<&record::WordErrors::insertions>,
       "words",
       "Number of additional words in the results.",
       -1,
       kDifference,
       {},
       true},
      {"cer",
       [](const record::Run& run) { return number(run.wer.cer); },
       "",
       "Character error rate: character errors / reference characters, without spaces.",
       -1,
       kDifference,
       {},
       true},
      {"wer.oracle",
       oracle_wer,
       "",
       "Word error rate if the best text of each n-best list were chosen.",
       -1,
       kDifference,
       {},
       true},
      {"boosted.recall",
       boosted<&record::Boosted::recall>,
       "",
       "Share of the boosted words in the references that the results have too.",
       1,
       kDifference,
       {},
       true},
      {"boosted.precision",
       boosted<&record::Boosted::precision>,
       "",
       "Share of the boosted words in the results that the reference has at that place.",
       1,
       kDifference,
       {},
       true},
      {"boosted.f_score",
       boosted<&record::Boosted::f_score>,
       "",
       "F-score of boosted phrases: the harmonic mean of their recall and precision.",
       1,
       kDifference,
       {},
       true},
      {"exact.grade",
       grade_as_number,
       "grade",
       "Worst grade of any utterance against the baseline: 5 bitwise, 4 exact, 3 rounding, 2 "
       "text, 1 wer, 0 different.",
       1,
       kDifference,
       {}},
      {"exact.rate",
       share_of_exact,
       "",
       "Share of the utterances that have the grade bitwise or exact against the baseline.",
       1,
       kDifference,
       {}},
      {"batch_ms.first",
       nullptr,
       "ms",
       "Time from samples to text of the first batch in the first pass of a case. Only in the "
       "mode throughput.",
       -1,
       kRatio,
       {},
       true},
      {"batch_ms.p50",
       nullptr,
       "ms",
       "Median over the batches of a round of the time from samples to text.",
       -1,
       kRatio,
       {},
       true},
      {"batch_ms.p95",
       nullptr,
       "ms",
       "95th percentile over the batches of a round of the time from samples to text.",
       -1,
       kRatio,
       {},
       true},
      {"batch_ms.p99",
       nullptr,
       "ms",
       "99th percentile over the batches of a round of the time from samples to text.",
       -1,
       kRatio,
       {},
       true},
      {"busy.load",
       nullptr,
       "",
       "Share of a pass in which the stage that reads audio files is busy. Only in the mode "
       "throughput.",
       0,
       kDifference,
       {},
       true},
      {"busy.copy",
       nullptr,
       "",
       "Share of a pass in which the stage that pads batches and copies them to the device is "
       "busy. Only in the mode throughput.",
       0,
       kDifference,
       {},
       true},
      {"busy.encoder",
       nullptr,
       "",
       "Share of a pass in which the stage of features and encoder is busy. Only in the mode "
       "throughput.",
       0,
       kDifference,
       {},
       true},
      {"busy.decode",
       nullptr,
       "",
       "Share of a pass in which the stage of the decoder is busy. Only in the mode throughput.",
       0,
       kDifference,
       {},
       true},
      {"busy.texts",
       nullptr,
       "",
       "Share of a pass in which the stage that copies results back and makes texts is busy. "
       "Only in the mode throughput.",
       0,
       kDifference,
       {},
       true},
      {"memory.kept_mib",
       nullptr,
       "MiB",
       "GPU memory that the decoder keeps between batches.",
       -1,
       kDifference,
       {},
       true},
      {"memory.peak_mib",
       nullptr,
       "MiB",
       "Largest amount of GPU memory that the decoder holds while it decodes.",
       -1,
       kDifference,
       {},
       true},
      {"energy.joules_per_hour",
       nullptr,
       "J",
       "Energy of the GPU for one hour of audio, from samples to text, while one decoder runs "
       "alone.",
       -1,
       kRatio,
       {},
       true},
      {"host_reads",
       host_reads,
       "reads",
       "Number of times in a round that the decoder waits for the device to learn a value.",
       -1,
       kDifference,
       {},
       true},
      {"wasted.joint",
       wasted_joint,
       "",
       "Share of the rows of joint calls whose decision no utterance needed. Only with the "
       "decoder's option count_rows.",
       -1,
       kDifference,
       {},
       true},
      {"wasted.prediction",
       wasted_predictions,
       "",
       "Share of the rows of prediction calls that no utterance needed. Only with the decoder's "
       "option count_rows.",
       -1,
       kDifference,
       {},
       true},
      {"collisions",
       collisions,
       "",
       "Share of the compared pairs of hypotheses that have one hash and different tokens. Only "
       "with the decoder's option count_collisions.",
       -1,
       kDifference,
       {},
       true},
      {"launches",
       [](const record::Run& run) { return run.profile.launches; },
       "launches",
       "Number of kernels that the host launches in a pass of the decoder, from the profile.",
       -1,
       kDifference,
       {},
       true},
      {"graph_launches",
       [](const record::Run& run) { return run.profile.graph_launches; },
       "launches",
       "Number of CUDA graphs that the host launches in a pass of the decoder, from the profile.",
       -1,
       kDifference,
       {},
       true},
      {"idle.share",
       [](const record::Run& run) { return run.profile.idle; },
       "",
       "Share of the decoder's time in which no kernel runs, from the profile.",
       -1,
       kDifference,
       {},
       true},
      {"stream.total_ms",
       nullptr,
       "ms",
       "Mean latency of a request of simulated streams: the time in the queue and in its batch.",
       -1,
       kRatio,
       {},
       true},
      {"stream.total_ms.p50",
       nullptr,
       "ms",
       "Median latency of a request of simulated streams.",
       -1,
       kRatio,
       {},
       true},
      {"stream.total_ms.p99",
       nullptr,
       "ms",
       "99th percentile of the latency of a request of simulated streams.",
       -1,
       kRatio,
       {},
       true},
      {"stream.queue_ms",
       nullptr,
       "ms",
       "Mean time that a request of simulated streams waits until its batch begins.",
       -1,
       kDifference,
       {},
       true},
      {"stream.compute_ms",
       nullptr,
       "ms",
       "Mean time of the batch that serves a request of simulated streams.",
       -1,
       kRatio,
       {},
       true},
      {"stream.rtfx",
       nullptr,
       "x",
       "Seconds of new audio per second until the last request of simulated streams was served.",
       1,
       kRatio,
       {},
       true},
      {"streams.sustained",
       nullptr,
       "streams",
       "Largest number of simulated streams that the rule confirmed. Without a rule: the "
       "largest number up to which every tested number had a stable queue.",
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

/// The invocation and the number of a round. A journal that joins two runs has equal numbers twice.
using RoundId = std::pair<std::string, int64_t>;

/// Returns counted_values() with their rounds.
std::vector<std::pair<RoundId, double>> counted(const Metric& metric, const CaseSummary& summary) {
  std::vector<std::pair<RoundId, double>> found;
  const auto add = [&](const record::Round& round) {
    const auto value = value_in(metric, round);
    if (!value) return;
    const std::string invocation = record::common_fields(round).provenance_id.value_or("");
    found.emplace_back(RoundId(invocation, record::number_of(round)), *value);
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
  const auto ours = counted(metric, from), theirs = counted(metric, to);
  const std::map<RoundId, double> others(theirs.begin(), theirs.end());
  std::vector<double> a, b;  // values of the rounds that count for both
  for (const auto& [round, value] : ours) {
    const auto other = others.find(round);
    if (other == others.end()) continue;
    a.push_back(value);
    b.push_back(other->second);
  }
  if (a.size() >= 2) return paired_ratio(a, b);
  if (ours.empty() || theirs.empty()) return std::nullopt;
  std::set<std::string> invocations;
  for (const auto* rounds : {&ours, &theirs}) {
    for (const auto& [round, _] : *rounds) invocations.insert(round.first);
  }
  a = counted_values(metric, from);
  b = counted_values(metric, to);
  // `--resume` measures a new decoder in another process than the baseline.
  const auto drift = invocations.size() == 1 ? std::optional(0.0) : std::nullopt;
  return runs_ratio({a}, b, drift);
}

namespace {

bool is_overlapped(const CaseSummary& summary) {
  const record::Run* run = summary.last_run();
  return run != nullptr && run->pipeline;
}

}  // namespace

std::optional<double> measured_noise_floor(const ResultSet& results, const std::string& group,
                                           const Metric& metric) {
  for (const CaseResult& control : results.cases) {
    if (control.control_of().empty() || control.group() != group) continue;
    for (const CaseResult& original : results.cases) {
      if (original.decoder() != control.control_of() || original.group() != group) continue;
      // A resumed run may have measured one of them anew in the other mode.
      if (is_overlapped(original.summary) != is_overlapped(control.summary)) continue;
      const auto ratio = ratio_within_run(metric, original.summary, control.summary);
      if (ratio && std::isfinite(ratio->high)) return noise_floor(*ratio);
    }
  }
  return std::nullopt;
}

namespace {

/// Returns the interval of a metric with at least one value.
Interval interval_of(const Metric& metric, const std::vector<double>& values,
                     const Spread& spread) {
  if (std::string_view(metric.key) == "exact.grade") return {spread.min, spread.min, spread.min};
  if (spread.min == spread.max && metric.change == kDifference)
    return {spread.mean, spread.mean, spread.mean};
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
  const Spread spread = spread_of(values);
  return Figure{interval_of(metric, values, spread), spread.sd, values.size()};
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
