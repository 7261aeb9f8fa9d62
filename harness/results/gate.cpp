#include "harness/results/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/results/metrics.h"
#include "harness/scoring/exactness.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr size_t kCleanRounds = 3;  // fewer than these do not replace all rounds

std::string percent(double share) { return fmt::format("{:.2g} %", 100 * share); }

json text_at(const json& record, const char* pointer) {
  const json::json_pointer where(pointer);
  return record.contains(where) ? record.at(where) : json();
}

/// The entry of a list of provenance with this id.
json entry(const json& provenance, const char* list, const std::string& id) {
  for (const json& item : provenance.value(list, json::array())) {
    if (item.value("id", "") == id) return item;
  }
  return nullptr;
}

/// Why the records of a case are no measurement; empty when they are.
std::string unfit(const CaseResult& c) {
  if (c.summary.failure) return "failed: " + *c.summary.failure;
  const json& provenance = c.provenance;
  if (provenance.empty()) return "no provenance record";
  const json build = text_at(provenance, "/rtfx/build_type");
  if (build != "Release") return fmt::format("a build of type {}", build.dump());
  if (text_at(provenance, "/rtfx/sanitizer") == true) return "a build with sanitizers";
  const json wanted = text_at(provenance, "/config/protocol/measured_rounds");
  if (wanted.is_number() && c.rounds.size() < wanted.get<size_t>())
    return fmt::format("{} of {} rounds", c.rounds.size(), wanted.get<size_t>());
  const bool on_gpu = text_at(provenance, "/device/type") == "cuda";
  for (const json& round : c.rounds) {
    if (on_gpu && !text_at(round, "/conditions/sm_clock_mhz/mean").is_number())
      return "no GPU clocks in its records";
  }
  return "";
}

/// Why two records of a case cannot be compared; empty when they can.
std::string incomparable(const CaseResult& a, const CaseResult& b) {
  const json &p = a.provenance, &q = b.provenance;
  for (const char* pointer :
       {"/device/type", "/device/name", "/cpu/threads", "/tf32", "/shards/count"}) {
    const json x = text_at(p, pointer), y = text_at(q, pointer);
    if (x != y) return fmt::format("other {}: {}, now {}", pointer + 1, x.dump(), y.dump());
  }
  // Journals of earlier releases do not say how the CPUs were shared.
  const auto says = [](const json& record) {
    return !text_at(record, "/cpu/wait_policy").is_null();
  };
  for (const char* pointer : {"/cpu/wait_policy", "/cpu/affinity/cpus", "/cpu/group_limits/cpus"}) {
    if (!says(p) || !says(q)) break;
    const json x = text_at(p, pointer), y = text_at(q, pointer);
    if (x != y) return fmt::format("other {}: {}, now {}", pointer + 1, x.dump(), y.dump());
  }
  for (const auto& [list, key] : {std::pair("models", "model"), std::pair("datasets", "dataset")}) {
    const auto checksum = [&, list = list, key = key](const CaseResult& c) {
      return entry(c.provenance, list, c.summary.last.at(key).at("id")).value("sha256", json());
    };
    if (entry(p, list, a.summary.last.at(key).at("id")).is_null()) continue;
    if (entry(q, list, b.summary.last.at(key).at("id")).is_null()) continue;
    if (checksum(a) != checksum(b)) return fmt::format("other {}: its checksum differs", key);
  }
  for (const char* key : {"dataset", "batch"}) {
    if (a.summary.last.at(key) != b.summary.last.at(key)) return fmt::format("other {}", key);
  }
  return "";
}

/// The worst grade that both runs allow an exact decoder in this dtype.
Grade required_grade(const CaseResult& a, const CaseResult& b) {
  const std::string pointer =
      "/config/verify/required/" + a.summary.last.at("dtype").get<std::string>();
  Grade grade = Grade::different;
  for (const CaseResult* c : {&a, &b}) {
    const json name = text_at(c->provenance, pointer.c_str());
    if (name.is_string()) grade = std::min(grade, grade_of(name));
  }
  return grade;
}

/// Tokens, frames and durations of the first round, as a checksum.
json result_hash(const CaseResult& c) { return c.rounds.front().value("tokens_sha256", json()); }

std::optional<double> wer_of(const CaseResult& c) {
  const auto values = metric_values(find_metric("wer", ""), c.rounds);
  return values.empty() ? std::nullopt : std::optional(values.back());
}

/// Are the results the baseline's, and as exact as required?
Judgement judge_results(const CaseResult& old, const CaseResult& now) {
  const std::string& grade = now.summary.grade;
  const bool exact = now.summary.last.at("decoder").at("exactness") == "exact";
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
  const bool same_bits =
      old.rounds.front().at("hypotheses_sha256") == now.rounds.front().at("hypotheses_sha256");
  if (same_bits) return {Verdict::pass, "the same, score bits included"};
  const json a = result_hash(old), b = result_hash(now);
  if (!a.is_string() || !b.is_string())
    return {Verdict::invalid, "other hypotheses, and no tokens_sha256 that tells how"};
  if (a == b) return {Verdict::pass, "the same tokens and frames, other score bits"};
  const auto wer_a = wer_of(old), wer_b = wer_of(now);
  if (wer_a && wer_b && *wer_b < *wer_a)
    return {Verdict::pass, "other tokens and fewer word errors: renew the baseline"};
  const bool proven = least >= Grade::rounding && now.summary.replay.is_object();
  if (exact && least < Grade::different && !proven)
    return {Verdict::correctness, "other tokens or frames than the baseline's"};
  return {Verdict::pass, proven ? "other tokens, every decision within rounding"
                                : "other tokens, which is allowed here"};
}

GateRow wer_row(const CaseResult& old, const CaseResult& now, double tolerance) {
  GateRow row{now.name(), "wer", wer_of(old), wer_of(now), {}, tolerance, {}, Verdict::pass, ""};
  if (!row.baseline || !row.current) {
    const bool lost = row.baseline.has_value() != row.current.has_value();
    row.verdict = lost ? Verdict::invalid : Verdict::pass;
    row.reason = lost ? "only one of both has references" : "no references";
    return row;
  }
  const json &a = old.rounds.front().at("wer"), &b = now.rounds.front().at("wer");
  for (const char* key : {"normalizer", "version"}) {
    if (a.at(key) == b.at(key)) continue;
    row.verdict = Verdict::invalid;
    row.reason = "another scorer";
    return row;
  }
  const double more = *row.current - *row.baseline;
  if (more > tolerance) {
    row.verdict = Verdict::correctness;
    row.reason = fmt::format("{:.3g} points more word errors", 100 * more);
  }
  return row;
}

/// The rounds by which a case is judged: the undisturbed ones, or all where those are few.
std::vector<json> speaking_rounds(const CaseResult& c, bool& disturbed) {
  std::vector<json> clean = c.clean_rounds();
  if (clean.size() == c.rounds.size() || clean.size() >= kCleanRounds) return clean;
  disturbed = true;
  return c.rounds;
}

bool noisy(const CaseResult& c, const std::vector<json>& rounds) {
  const json limit = text_at(c.provenance, "/config/protocol/cv_max");
  const auto totals = metric_values(find_metric("rtfx.total", ""), rounds);
  return limit.is_number() && totals.size() > 1 && summarize(totals).cv() > limit;
}

std::optional<GateRow> speed_row(const Metric& metric, const CaseResult& old, const CaseResult& now,
                                 double tolerance, std::optional<double> measured_floor) {
  bool disturbed = false;
  const std::vector<json> old_rounds = speaking_rounds(old, disturbed);
  const std::vector<json> now_rounds = speaking_rounds(now, disturbed);
  const auto a = metric_values(metric, old_rounds), b = metric_values(metric, now_rounds);
  if (a.empty() && b.empty()) return std::nullopt;
  GateRow row{now.name(), metric.key, {}, {}, {}, tolerance, {}, Verdict::invalid, ""};
  if (a.empty() || b.empty()) {
    row.reason = "no value in one of both";
    return row;
  }
  row.baseline = summarize(a).mean;
  row.current = summarize(b).mean;
  row.change = unpaired_ratio(a, b);
  row.floor =
      measured_floor ? *measured_floor : std::max(expected_noise_floor(a), expected_noise_floor(b));
  const Interval gain = metric.direction > 0 ? *row.change
                                             : Interval{1 / row.change->estimate,
                                                        1 / row.change->high, 1 / row.change->low};
  const auto [verdict, reason] = judge(gain, tolerance, *row.floor);
  row.verdict = verdict;
  row.reason = reason;
  const bool better = gain.low > 1;
  if (better) return row;
  if (disturbed) {
    row.verdict = Verdict::inconclusive;
    row.reason = "most rounds are suspect: the machine was disturbed";
  } else if (noisy(old, old_rounds) || noisy(now, now_rounds)) {
    row.verdict = Verdict::inconclusive;
    row.reason = "NOISY: the spread of its rounds is over protocol.cv_max";
  }
  return row;
}

GateRow invalid(const std::string& case_name, const std::string& reason) {
  return {case_name, "case", {}, {}, {}, {}, {}, Verdict::invalid, reason};
}

void add_case(std::vector<GateRow>& rows, const ResultSet& baseline, const ResultSet& current,
              const CaseResult& old, const CaseResult& now, const Tolerances& tolerances) {
  const std::string& name = now.name();
  std::string problem;
  if (const auto p = unfit(old); !p.empty()) problem = "baseline: " + p;
  if (const auto p = unfit(now); !p.empty()) problem = p;
  if (problem.empty()) problem = incomparable(old, now);
  if (!problem.empty()) return rows.push_back(invalid(name, problem));
  const auto [verdict, reason] = judge_results(old, now);
  rows.push_back({name, "results", {}, {}, {}, {}, {}, verdict, reason});
  for (const Metric& metric : metrics()) {
    const auto given = tolerances.find(metric.key);
    const auto tolerance =
        given == tolerances.end() ? metric.tolerance : std::optional(given->second);
    if (!tolerance) continue;
    if (metric.change == Metric::Change::difference) {
      rows.push_back(wer_row(old, now, *tolerance));
      continue;
    }
    std::optional<double> floor;
    for (const ResultSet* set : {&baseline, &current}) {
      const auto measured = measured_noise_floor(*set, now.group(), metric.key);
      if (measured) floor = std::max(floor.value_or(0), *measured);
    }
    if (const auto row = speed_row(metric, old, now, *tolerance, floor)) rows.push_back(*row);
  }
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "PASS";
    case Verdict::regressed:
      return "REGRESSED";
    case Verdict::inconclusive:
      return "INCONCLUSIVE";
    case Verdict::invalid:
      return "INVALID";
    case Verdict::correctness:
      return "CORRECTNESS";
  }
  return "";
}

Verdict worse(Verdict a, Verdict b) {
  const auto gravity = [](Verdict v) {
    return v == Verdict::inconclusive ? 1 : v == Verdict::regressed ? 2 : static_cast<int>(v);
  };
  return gravity(a) >= gravity(b) ? a : b;
}

Judgement judge(const Interval& gain, double tolerance, double floor) {
  if (gain.low > 1) return {Verdict::pass, "better"};
  if (tolerance < floor) {
    if (gain.high < 1 - floor) return {Verdict::regressed, "worse, beyond the noise floor"};
    return {Verdict::inconclusive, fmt::format("the tolerance of {} is below the noise floor of {}",
                                               percent(tolerance), percent(floor))};
  }
  if (gain.high < 1 - tolerance) return {Verdict::regressed, "worse beyond the tolerance"};
  if (gain.low >= 1 - tolerance) return {Verdict::pass, ""};
  return {Verdict::inconclusive, "the interval holds the tolerance: more rounds would tell"};
}

std::vector<GateRow> gate(const ResultSet& baseline, const ResultSet& current,
                          const Tolerances& tolerances) {
  std::vector<GateRow> rows;
  for (const ResultSet* set : {&baseline, &current}) {
    const std::string file = set->journal.string();
    if (set->profiled) {
      rows.push_back(invalid(file, "comes from `rtfx profile`"));
    } else if (set->cases.empty()) {
      rows.push_back(invalid(file, "holds no case"));
    }
  }
  if (!rows.empty()) return rows;
  for (const CaseResult& now : current.cases) {
    if (!now.control_of().empty()) continue;
    if (const CaseResult* old = baseline.find(now.name())) {
      add_case(rows, baseline, current, *old, now, tolerances);
    } else {
      rows.push_back(invalid(now.name(), "missing in the baseline"));
    }
  }
  for (const CaseResult& old : baseline.cases) {
    if (old.control_of().empty() && current.find(old.name()) == nullptr)
      rows.push_back(invalid(old.name(), "missing in the current results"));
  }
  return rows;
}

Verdict worst(const std::vector<GateRow>& rows) {
  Verdict verdict = rows.empty() ? Verdict::invalid : Verdict::pass;
  for (const GateRow& row : rows) verdict = worse(verdict, row.verdict);
  return verdict;
}

}  // namespace rtfx
