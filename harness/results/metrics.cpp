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

using ValueFunction = Value (*)(const record::Run&);

/// Returns the functions of the computed metrics, by key.
const std::map<std::string_view, ValueFunction>& value_functions() {
  static const std::map<std::string_view, ValueFunction> all = {
      {"rtfx.wall", wall_rtfx},
      {"wer", [](const record::Run& run) { return number(run.wer.wer); }},
      {"wer.substitutions", errors<&record::WordErrors::substitutions>},
      {"wer.deletions", errors<&record::WordErrors::deletions>},
      {"wer.insertions", errors<&record::WordErrors::insertions>},
      {"cer", [](const record::Run& run) { return number(run.wer.cer); }},
      {"wer.oracle", oracle_wer},
      {"boosted.recall", boosted<&record::Boosted::recall>},
      {"boosted.precision", boosted<&record::Boosted::precision>},
      {"boosted.f_score", boosted<&record::Boosted::f_score>},
      {"exact.grade", grade_as_number},
      {"exact.rate", share_of_exact},
      {"host_reads", host_reads},
      {"wasted.joint", wasted_joint},
      {"wasted.prediction", wasted_predictions},
      {"collisions", collisions},
      {"launches", [](const record::Run& run) { return run.profile.launches; }},
      {"graph_launches", [](const record::Run& run) { return run.profile.graph_launches; }},
      {"idle.share", [](const record::Run& run) { return run.profile.idle; }},
  };
  return all;
}

std::vector<Metric> all_metrics() {
  std::vector<Metric> all;
  size_t computed = 0;
  for (const MetricInfo& info : metric_table()) {
    Metric& metric = all.emplace_back(Metric{info, nullptr});
    if (!std::holds_alternative<Computed>(info.source)) continue;
    const auto function = value_functions().find(info.key);
    RTFX_CHECK(function != value_functions().end(), "each computed metric has a function");
    metric.value = function->second;
    ++computed;
  }
  RTFX_CHECK(computed == value_functions().size(), "each function is that of a computed metric");
  return all;
}

}  // namespace

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = all_metrics();
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
  if (spread.min == spread.max && metric.change == Metric::Change::difference)
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
