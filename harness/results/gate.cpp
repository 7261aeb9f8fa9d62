#include "harness/results/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "harness/results/comparability.h"
#include "harness/results/metrics.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

namespace {

using nlohmann::json;

/// Returns the first round of a case that is fit (unfit()).
const record::Run& first_run(const CaseResult& c) {
  return std::get<record::Run>(c.rounds().front());
}

std::optional<double> wer_of(const CaseResult& c) {
  const auto values = metric_values(find_metric("wer", ""), c.rounds());
  return values.empty() ? std::nullopt : std::optional(values.back());
}

/// Judges whether the results equal those of the baseline, and are as exact as required.
Judgement judge_results(const CaseResult& old, const CaseResult& now) {
  const std::string& grade = now.summary.grade;
  const bool exact = now.about().decoder.exactness == "exact";
  const Grade least = required_grade(old, now);
  if (!now.summary.deterministic)
    return {Verdict::correctness, "its rounds gave different results"};
  if (exact && !grade.empty() && grade != "baseline" && grade_of(grade) > least) {
    return {Verdict::correctness,
            fmt::format("graded {} against its baseline decoder, {} is required", grade,
                        to_string(least))};
  }
  if (const std::string beyond = beyond_rounding(now.summary);
      !beyond.empty() && least < Grade::different)
    return {Verdict::correctness, "beyond rounding: " + beyond};
  if (const std::string wrong = now.summary.inexact(); !wrong.empty())
    return {Verdict::correctness, wrong};
  const record::Run &x = first_run(old), &y = first_run(now);
  if (x.hypotheses_sha256 == y.hypotheses_sha256)
    return {Verdict::pass, "the same, score bits included"};
  if (!x.tokens_sha256 || !y.tokens_sha256)
    return {Verdict::invalid, "other hypotheses, and no tokens_sha256 that tells how"};
  if (x.tokens_sha256 == y.tokens_sha256)
    return {Verdict::pass, "the same tokens and frames, other score bits"};
  const auto wer_a = wer_of(old), wer_b = wer_of(now);
  const bool same_scorer = scorer_of(old) == scorer_of(now);
  if (same_scorer && wer_a && wer_b && *wer_b < *wer_a)
    return {Verdict::pass, "other tokens and fewer word errors: renew the baseline"};
  const bool proven = least >= Grade::rounding && now.summary.replay.has_value();
  if (exact && least < Grade::different && !proven)
    return {Verdict::correctness, "other tokens or frames than the baseline's"};
  return {Verdict::pass, proven ? "other tokens, every decision within rounding"
                                : "other tokens, which is allowed here"};
}

/// Returns the word errors beyond those in fp32 that the run's configuration does not allow.
std::string fault_beside_fp32(const ResultSet& run, const CaseResult& now) {
  const json allowed = config_value(run.provenance, "/verify/wer_above_fp32");
  const CaseResult* in_fp32 = run.find(name_in_fp32(now.name()));
  if (in_fp32 == nullptr || !allowed.is_number()) return "";
  return above_fp32(now.summary, in_fp32->summary, allowed);
}

GateRow wer_row(const CaseResult& old, const CaseResult& now, double tolerance) {
  GateRow row{.case_name = now.name(),
              .what = "wer",
              .baseline = wer_of(old),
              .current = wer_of(now),
              .tolerance = tolerance};
  if (!row.baseline || !row.current) {
    const bool lost = row.baseline.has_value() != row.current.has_value();
    row.verdict = lost ? Verdict::invalid : Verdict::pass;
    row.reason = lost ? "only one of both has references" : "no references";
    return row;
  }
  if (scorer_of(old) != scorer_of(now)) {
    row.reason = "another scorer, which is allowed: not compared";
    return row;
  }
  const double more = *row.current - *row.baseline;
  if (exceeds(more, tolerance)) {
    row.verdict = Verdict::correctness;
    row.reason = fmt::format("{:.3g} points more word errors", 100 * more);
  }
  return row;
}

/// Returns the change that noise alone makes between two equal runs, from the interval of their
/// ratio.
double noise_of(const Interval& ratio) {
  return noise_floor({1, ratio.low / ratio.estimate, ratio.high / ratio.estimate});
}

/// Returns whether the rounds by which a case is judged vary too much.
bool is_noisy_for_gate(const CaseSummary& summary) {
  return summary.varies_too_much(counted_values(find_metric("rtfx.total", ""), summary));
}

using Cases = std::vector<const CaseResult*>;

/// A row with a change. Its verdict depends on the number of such rows.
struct SpeedRow {
  size_t index;  // index of the row
  std::vector<std::vector<double>> before;
  std::vector<double> now;
  bool more_is_better, old_disturbed, disturbed, any_noisy;
  std::vector<std::string> doubts;
};

struct Rows {
  std::vector<GateRow> all;
  std::vector<SpeedRow> speeds;  // rows of speeds, without a verdict so far
};

void add_speed(Rows& rows, const Metric& metric, const Cases& old, const CaseResult& now,
               double tolerance, std::optional<double> drift, double measured_floor) {
  const CountedRounds now_rounds = now.summary.counted_rounds();
  SpeedRow speed{.index = rows.all.size(),
                 .before = {},
                 .now = counted_values(metric, now.summary),
                 .more_is_better = metric.direction > 0,
                 .old_disturbed = false,
                 .disturbed = now_rounds.disturbed,
                 .any_noisy = is_noisy_for_gate(now.summary),
                 .doubts = {}};
  bool missing = speed.now.empty();
  std::string rounds;
  double sum = 0;
  for (const CaseResult* run : old) {
    const CountedRounds counted = run->summary.counted_rounds();
    speed.old_disturbed = speed.old_disturbed || counted.disturbed;
    rounds += (rounds.empty() ? "" : "; ") + counted.text();
    const auto& values = speed.before.emplace_back(counted_values(metric, run->summary));
    speed.any_noisy = speed.any_noisy || is_noisy_for_gate(run->summary);
    missing = missing || values.empty();
    if (!values.empty()) sum += spread_of(values).mean;
  }
  if (speed.now.empty() && sum == 0) return;
  GateRow& row = rows.all.emplace_back(GateRow{.case_name = now.name(),
                                               .what = metric.key,
                                               .tolerance = tolerance,
                                               .verdict = Verdict::invalid});
  if (missing) {
    row.reason = "no value in one of both";
    return;
  }
  row.rounds = fmt::format("{} -> {}", rounds, now_rounds.text());
  row.baseline = sum / static_cast<double>(old.size());
  row.current = spread_of(speed.now).mean;
  row.change = runs_ratio(speed.before, speed.now, drift);
  const bool has_interval = std::isfinite(row.change->high);
  row.floor = has_interval ? std::max(measured_floor, noise_of(*row.change)) : measured_floor;
  for (const CaseResult* run : old) {
    for (std::string& doubt : condition_doubts(*run, now)) {
      if (std::ranges::find(speed.doubts, doubt) == speed.doubts.end())
        speed.doubts.push_back(std::move(doubt));
    }
  }
  speed.disturbed = speed.disturbed || speed.old_disturbed;
  row.is_fair = speed.doubts.empty() && !speed.disturbed;
  rows.speeds.push_back(std::move(speed));
}

/// `judged_rows` is the number of rows that are judged together.
void judge_speed(GateRow& row, const SpeedRow& speed, std::optional<double> drift,
                 size_t judged_rows) {
  if (!speed.doubts.empty()) {
    row.verdict = Verdict::inconclusive;
    row.reason = fmt::format("other conditions: {}", fmt::join(speed.doubts, "; "));
    return;
  }
  const double corrected = 1 - (1 - kConfidence) / static_cast<double>(judged_rows);
  const Interval wide = runs_ratio(speed.before, speed.now, drift, corrected);
  const Interval gain = speed.more_is_better ? *row.change
                                             : Interval{1 / row.change->estimate,
                                                        1 / row.change->high, 1 / row.change->low};
  const auto [verdict, reason] =
      judge(gain, *row.tolerance, *row.floor, speed.more_is_better ? wide.high : 1 / wide.low,
            !speed.more_is_better);
  row.verdict = verdict;
  row.reason = reason;
  // A gain over a disturbed baseline proves nothing.
  if (gain.low > 1 && !speed.old_disturbed) return;
  if (speed.disturbed) {
    row.verdict = Verdict::inconclusive;
    row.reason = "fewer than three rounds are not suspect: the machine was disturbed";
  } else if (speed.any_noisy) {
    row.verdict = Verdict::inconclusive;
    row.reason = "NOISY: the spread of its rounds is over protocol.cv_max";
  }
}

/// Returns a row about a case as a whole, which has no figures.
GateRow case_row(const std::string& case_name, Verdict verdict, const std::string& reason) {
  return {.case_name = case_name, .what = "case", .verdict = verdict, .reason = reason};
}

GateRow invalid(const std::string& case_name, const std::string& reason) {
  return case_row(case_name, Verdict::invalid, reason);
}

/// Returns the name of a baseline run, where there are several.
std::string run_name(std::span<const ResultSet> baselines, size_t index) {
  return baselines.size() > 1 ? baselines[index].journal.string() : "";
}

/// Returns rows about the conditions: those that make a case invalid, and those that may differ.
std::vector<GateRow> condition_rows(std::span<const ResultSet> baselines, const Cases& old,
                                    const CaseResult& now, const std::set<std::string>& allowed) {
  const auto refused = [&](size_t index, const std::string& reason) {
    std::vector<GateRow> rows = {invalid(now.name(), reason)};
    rows[0].baseline_run = run_name(baselines, index);
    return rows;
  };
  if (const auto p = unfit(now); !p.empty()) return {invalid(now.name(), p)};
  std::vector<GateRow> rows;
  for (size_t i = 0; i < old.size(); ++i) {
    if (const auto p = unfit(*old[i]); !p.empty()) return refused(i, "baseline: " + p);
    for (const ConditionDifference& difference : condition_differences(*old[i], now)) {
      if (!allowed.contains(difference.kind)) {
        const bool allowable = std::ranges::count(allowable_differences(), difference.kind) > 0;
        const std::string remedy = allowable ? fmt::format(" (--allow {})", difference.kind) : "";
        return refused(i, difference.text + remedy);
      }
      const std::string text = "allowed: " + difference.text;
      if (rows.empty() || rows.back().reason != text)
        rows.push_back(case_row(now.name(), Verdict::pass, text));
    }
  }
  return rows;
}

void add_case(Rows& rows, std::span<const ResultSet> baselines, const ResultSet& current,
              const Cases& old, const CaseResult& now, const GateOptions& options) {
  const std::string& name = now.name();
  const auto conditions = condition_rows(baselines, old, now, options.allowed);
  rows.all.insert(rows.all.end(), conditions.begin(), conditions.end());
  if (!conditions.empty() && conditions.front().verdict == Verdict::invalid) return;
  for (size_t i = 0; i < old.size(); ++i) {
    const auto [verdict, reason] = judge_results(*old[i], now);
    rows.all.push_back({.case_name = name,
                        .what = "results",
                        .verdict = verdict,
                        .reason = reason,
                        .baseline_run = run_name(baselines, i)});
  }
  if (const std::string above = fault_beside_fp32(current, now); !above.empty())
    rows.all.push_back(
        {.case_name = name, .what = "fp32", .verdict = Verdict::correctness, .reason = above});
  for (const Metric& metric : metrics()) {
    const auto given = options.tolerances.find(metric.key);
    const auto tolerance =
        given == options.tolerances.end() ? metric.tolerance : std::optional(given->second);
    if (!tolerance) continue;
    if (metric.change == Metric::Change::difference) {
      RTFX_CHECK(std::string_view(metric.key) == "wer", "the gate judges no other difference");
      for (size_t i = 0; i < old.size(); ++i) {
        rows.all.push_back(wer_row(*old[i], now, *tolerance));
        rows.all.back().baseline_run = run_name(baselines, i);
      }
      continue;
    }
    const auto floor_of = [&](const ResultSet& set) {
      return measured_noise_floor(set, now.group(), metric).value_or(0);
    };
    double floor = floor_of(current);
    for (const ResultSet& set : baselines) floor = std::max(floor, floor_of(set));
    add_speed(rows, metric, old, now, *tolerance, options.drift, floor);
  }
}

/// Returns the rows of gate(). Rows with a change have no verdict yet.
Rows rows_of(std::span<const ResultSet> baselines, const ResultSet& current,
             const GateOptions& options) {
  Rows rows;
  for (const CaseResult& now : current.cases) {
    if (!now.control_of().empty()) continue;
    Cases old;
    for (size_t i = 0; i < baselines.size(); ++i) {
      if (const CaseResult* found = baselines[i].find(now.name())) {
        old.push_back(found);
      } else {
        rows.all.push_back(invalid(now.name(), "missing in the baseline"));
        rows.all.back().baseline_run = run_name(baselines, i);
      }
    }
    if (old.size() == baselines.size()) add_case(rows, baselines, current, old, now, options);
  }
  std::set<std::string> missing;
  for (const ResultSet& baseline : baselines) {
    for (const CaseResult& old : baseline.cases) {
      if (old.control_of().empty() && current.find(old.name()) == nullptr &&
          missing.insert(old.name()).second)
        rows.all.push_back(invalid(old.name(), "missing in the current results"));
    }
  }
  return rows;
}

/// A tolerance that applies to no row is invalid: its author believes that it guards something.
void add_idle_tolerances(std::vector<GateRow>& rows, const Tolerances& tolerances) {
  const auto has = [&](const std::string& what) {
    return std::ranges::any_of(rows, [&](const GateRow& row) { return row.what == what; });
  };
  if (!has("results")) return;  // no case was compared
  for (const auto& [metric, tolerance] : tolerances) {
    if (has(metric)) continue;
    rows.push_back(
        invalid("--tolerance " + metric,
                "no case has this metric in all runs, so that nothing was judged by it"));
  }
}

}  // namespace

std::vector<GateRow> gate(std::span<const ResultSet> baselines, const ResultSet& current,
                          const GateOptions& options) {
  std::vector<GateRow> rows;
  const auto check = [&](const ResultSet& set) {
    const std::string file = set.journal.string();
    if (set.profiled) {
      rows.push_back(invalid(file, "comes from `rtfx profile`"));
    } else if (set.cases.empty()) {
      rows.push_back(invalid(file, set.streams.empty()
                                       ? "holds no case"
                                       : "holds streams alone, which the gate does not judge"));
    }
  };
  std::set<std::filesystem::path> journals;
  for (const ResultSet& baseline : baselines) {
    check(baseline);
    if (!is_new_journal(journals, baseline.journal))
      rows.push_back(invalid(baseline.journal.string(), "is given as a baseline twice"));
  }
  check(current);
  if (!rows.empty()) return rows;
  auto [all, speeds] = rows_of(baselines, current, options);
  for (const SpeedRow& speed : speeds)
    judge_speed(all[speed.index], speed, options.drift, speeds.size());
  add_idle_tolerances(all, options.tolerances);
  return std::move(all);
}

}  // namespace rtfx
