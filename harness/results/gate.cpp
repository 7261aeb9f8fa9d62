#include "harness/results/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/results/metrics.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

namespace {

using nlohmann::json;

json at_pointer(const json& record, const std::string& pointer) {
  const json::json_pointer where(pointer);
  return record.contains(where) ? record.at(where) : json();
}

/// The entry of a list of provenance with this id.
json entry(const json& provenance, const char* list, const json& id) {
  for (const json& item : provenance.value(list, json::array())) {
    if (item.value("id", json()) == id) return item;
  }
  return nullptr;
}

/// Collects the differences between two results.
class ConditionComparison {
 public:
  ConditionComparison(const CaseResult& a, const CaseResult& b)
      : a_(a), b_(b), p_(a.provenance), q_(b.provenance) {}

  std::vector<ConditionDifference> differences() {
    for (const char* key :
         {"/device/type", "/device/name", "/cpu/threads", "/tf32", "/shards/count"})
      compare("", key + 1, at_pointer(p_, key), at_pointer(q_, key));
    // Journals of earlier releases do not say how the CPUs were shared.
    if (both_say("/cpu/wait_policy")) {
      for (const char* key : {"/cpu/wait_policy", "/cpu/affinity/cpus", "/cpu/group_limits/cpus"})
        compare("", key + 1, at_pointer(p_, key), at_pointer(q_, key));
    }
    compare_checksums();
    for (const char* key : {"id", "utterances", "audio_seconds"}) {
      const json &x = a_.summary.last.at("dataset"), &y = b_.summary.last.at("dataset");
      compare("", fmt::format("dataset {}", key), x.at(key), y.at(key));
    }
    compare("", "protocol.mode", a_.summary.last.value("pipeline", json("isolated")),
            b_.summary.last.value("pipeline", json("isolated")));
    compare("", "batch", a_.summary.last.at("batch"), b_.summary.last.at("batch"));
    compare_order();
    compare_decoders();
    compare_where_said("encoder", "encoder", "/config/encoder");
    compare_where_said("encoder", "encoder_graphs", "/config/encoder_graphs");
    for (const char* key : {"/libtorch", "/cuda_runtime", "/cudnn"})
      compare_where_said("libtorch", key + 1, key);
    compare_where_said("driver", "cuda_driver", "/cuda_driver");
    compare_scorers();
    compare_clocks();
    return std::move(found_);
  }

 private:
  void add(const char* kind, std::string text) { found_.push_back({kind, std::move(text)}); }

  void compare(const char* kind, const std::string& name, const json& x, const json& y) {
    if (x != y) add(kind, fmt::format("other {}: {}, now {}", name, x.dump(), y.dump()));
  }

  bool both_say(const char* pointer) const {
    return !at_pointer(p_, pointer).is_null() && !at_pointer(q_, pointer).is_null();
  }

  void compare_where_said(const char* kind, const std::string& name, const char* pointer) {
    if (both_say(pointer)) compare(kind, name, at_pointer(p_, pointer), at_pointer(q_, pointer));
  }

  void compare_checksums() {
    for (const auto& [list, key] :
         {std::pair("models", "model"), std::pair("datasets", "dataset")}) {
      const json x = entry(p_, list, a_.summary.last.at(key).at("id"));
      const json y = entry(q_, list, b_.summary.last.at(key).at("id"));
      if (x.is_null() || y.is_null()) continue;
      if (x.value("sha256", json()) != y.value("sha256", json()))
        add("", fmt::format("other {}: its checksum differs", key));
    }
    const auto context = [](const CaseResult& c) {
      const json config = c.provenance.value("config", json::object());
      const json model = entry(config, "models", c.summary.last.at("model").at("id"));
      return model.is_object() ? model.value("att_context_size", json()) : json();
    };
    if (!p_.contains("config") || !q_.contains("config")) return;
    compare("", "att_context_size", context(a_), context(b_));
  }

  void compare_order() {
    compare_where_said("", "sort", "/config/sort");
    if (at_pointer(p_, "/config/sort") == "shuffle")
      compare_where_said("", "protocol.seed", "/config/protocol/seed");
  }

  void compare_decoders() {
    const json &x = a_.summary.last.at("decoder"), &y = b_.summary.last.at("decoder");
    compare("", "decoder", x.at("name"), y.at("name"));
    compare_options("option ", x.value("options", json::object()),
                    y.value("options", json::object()));
  }

  /// Journals hold every option with its value, so one that is missing is of another release.
  void compare_options(const std::string& name, const json& x, const json& y) {
    if (!x.is_object() || !y.is_object()) {
      if (checksum(p_, x) != checksum(q_, y)) compare("", name, x, y);
      return;
    }
    const bool inner = name != "option ";
    for (const auto& [key, value] : x.items()) {
      if (y.contains(key)) compare_options(name + (inner ? "." : "") + key, value, y.at(key));
    }
  }

  /// The checksum of the file that an option names, which may lie elsewhere; else the value itself.
  static json checksum(const json& provenance, const json& value) {
    if (!value.is_string()) return value;
    return provenance.value("decoder_files", json::object()).value(value.get<std::string>(), value);
  }

  void compare_scorers() {
    const auto scorer = [](const CaseResult& c) {
      const json wer = c.rounds.empty() ? json() : c.rounds.front().value("wer", json());
      return wer.is_object() ? fmt::format("{} version {}", wer.value("normalizer", ""),
                                           wer.value("version", 0))
                             : std::string();
    };
    compare("scorer", "scorer", scorer(a_), scorer(b_));
  }

  /// Journals of earlier releases began the clock behind the padding.
  void compare_clocks() {
    const auto padding = [](const CaseResult& c) {
      return !c.rounds.empty() && c.rounds.front().at("regions").contains("pad");
    };
    if (padding(a_) != padding(b_))
      add("", "only one of both counts padding as time: measure the baseline again");
  }

  const CaseResult &a_, &b_;
  const json &p_, &q_;
  std::vector<ConditionDifference> found_;
};

}  // namespace

const std::vector<std::string>& allowable_differences() {
  static const std::vector<std::string> kinds = {"libtorch", "driver", "encoder", "scorer"};
  return kinds;
}

std::vector<ConditionDifference> condition_differences(const CaseResult& a, const CaseResult& b) {
  return ConditionComparison(a, b).differences();
}

namespace {

using nlohmann::json;

constexpr size_t kCleanRounds = 3;  // fewer than these do not replace all rounds

std::string percent(double share) { return fmt::format("{:.2g} %", 100 * share); }

json text_at(const json& record, const char* pointer) {
  const json::json_pointer where(pointer);
  return record.contains(where) ? record.at(where) : json();
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

/// The worst grade that both runs allow an exact decoder in this dtype.
Grade required_grade(const CaseResult& a, const CaseResult& b) {
  const std::string pointer =
      "/config/verify/required/" + decoder_dtype(a.summary.last.at("dtype").get<std::string>());
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
  if (a.at("normalizer") != b.at("normalizer") || a.at("version") != b.at("version")) {
    row.reason = "another scorer, which is allowed: not compared";
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

/// The change that noise alone makes between two equal runs, from the interval of their ratio.
double noise_of(const Interval& ratio) {
  return noise_floor({1, ratio.low / ratio.estimate, ratio.high / ratio.estimate});
}

using Cases = std::vector<const CaseResult*>;

std::optional<GateRow> speed_row(const Metric& metric, const Cases& old, const CaseResult& now,
                                 double tolerance, std::optional<double> drift,
                                 double measured_floor) {
  bool disturbed = false;
  const std::vector<json> now_rounds = speaking_rounds(now, disturbed);
  const auto b = metric_values(metric, now_rounds);
  bool any_noisy = noisy(now, now_rounds), missing = b.empty();
  std::vector<std::vector<double>> before;
  double sum = 0;
  for (const CaseResult* run : old) {
    const std::vector<json> rounds = speaking_rounds(*run, disturbed);
    before.push_back(metric_values(metric, rounds));
    any_noisy = any_noisy || noisy(*run, rounds);
    missing = missing || before.back().empty();
    if (!before.back().empty()) sum += summarize(before.back()).mean;
  }
  if (b.empty() && sum == 0) return std::nullopt;
  GateRow row{now.name(), metric.key, {}, {}, {}, tolerance, {}, Verdict::invalid, ""};
  if (missing) {
    row.reason = "no value in one of both";
    return row;
  }
  row.baseline = sum / static_cast<double>(old.size());
  row.current = summarize(b).mean;
  row.change = runs_ratio(before, b, drift);
  row.floor = std::max(measured_floor, noise_of(*row.change));
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
  } else if (any_noisy) {
    row.verdict = Verdict::inconclusive;
    row.reason = "NOISY: the spread of its rounds is over protocol.cv_max";
  }
  return row;
}

GateRow invalid(const std::string& case_name, const std::string& reason) {
  return {case_name, "case", {}, {}, {}, {}, {}, Verdict::invalid, reason};
}

/// Rows about the conditions: what makes a case invalid, or what was allowed to differ.
std::vector<GateRow> condition_rows(const Cases& old, const CaseResult& now,
                                    const std::set<std::string>& allowed) {
  const auto row = [&](Verdict verdict, const std::string& reason) {
    return GateRow{now.name(), "case", {}, {}, {}, {}, {}, verdict, reason};
  };
  if (const auto p = unfit(now); !p.empty()) return {row(Verdict::invalid, p)};
  std::vector<GateRow> rows;
  for (const CaseResult* run : old) {
    if (const auto p = unfit(*run); !p.empty()) return {row(Verdict::invalid, "baseline: " + p)};
    for (const ConditionDifference& difference : condition_differences(*run, now)) {
      if (!allowed.contains(difference.kind)) {
        const std::string remedy =
            difference.kind.empty() ? "" : fmt::format(" (--allow {})", difference.kind);
        return {row(Verdict::invalid, difference.text + remedy)};
      }
      const std::string text = "allowed: " + difference.text;
      if (rows.empty() || rows.back().reason != text) rows.push_back(row(Verdict::pass, text));
    }
  }
  return rows;
}

void add_case(std::vector<GateRow>& rows, std::span<const ResultSet> baselines,
              const ResultSet& current, const Cases& old, const CaseResult& now,
              const GateOptions& options) {
  const std::string& name = now.name();
  const auto conditions = condition_rows(old, now, options.allowed);
  rows.insert(rows.end(), conditions.begin(), conditions.end());
  if (!conditions.empty() && conditions.front().verdict == Verdict::invalid) return;
  for (const CaseResult* run : old) {
    const auto [verdict, reason] = judge_results(*run, now);
    rows.push_back({name, "results", {}, {}, {}, {}, {}, verdict, reason});
  }
  for (const Metric& metric : metrics()) {
    const auto given = options.tolerances.find(metric.key);
    const auto tolerance =
        given == options.tolerances.end() ? metric.tolerance : std::optional(given->second);
    if (!tolerance) continue;
    if (metric.change == Metric::Change::difference) {
      for (const CaseResult* run : old) rows.push_back(wer_row(*run, now, *tolerance));
      continue;
    }
    const auto floor_of = [&](const ResultSet& set) {
      return measured_noise_floor(set, now.group(), metric.key).value_or(0);
    };
    double floor = floor_of(current);
    for (const ResultSet& set : baselines) floor = std::max(floor, floor_of(set));
    if (const auto row = speed_row(metric, old, now, *tolerance, options.drift, floor))
      rows.push_back(*row);
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

std::vector<GateRow> gate(std::span<const ResultSet> baselines, const ResultSet& current,
                          const GateOptions& options) {
  std::vector<GateRow> rows;
  const auto check = [&](const ResultSet& set) {
    const std::string file = set.journal.string();
    if (set.profiled) {
      rows.push_back(invalid(file, "comes from `rtfx profile`"));
    } else if (set.cases.empty()) {
      rows.push_back(invalid(file, "holds no case"));
    }
  };
  for (const ResultSet& baseline : baselines) check(baseline);
  check(current);
  if (!rows.empty()) return rows;
  for (const CaseResult& now : current.cases) {
    if (!now.control_of().empty()) continue;
    Cases old;
    for (const ResultSet& baseline : baselines) {
      if (const CaseResult* found = baseline.find(now.name())) old.push_back(found);
    }
    if (old.size() == baselines.size()) {
      add_case(rows, baselines, current, old, now, options);
    } else {
      rows.push_back(invalid(now.name(), "missing in the baseline"));
    }
  }
  std::set<std::string> missing;
  for (const ResultSet& baseline : baselines) {
    for (const CaseResult& old : baseline.cases) {
      if (old.control_of().empty() && current.find(old.name()) == nullptr &&
          missing.insert(old.name()).second)
        rows.push_back(invalid(old.name(), "missing in the current results"));
    }
  }
  return rows;
}

Verdict worst(const std::vector<GateRow>& rows) {
  Verdict verdict = rows.empty() ? Verdict::invalid : Verdict::pass;
  for (const GateRow& row : rows) verdict = worse(verdict, row.verdict);
  return verdict;
}

}  // namespace rtfx
