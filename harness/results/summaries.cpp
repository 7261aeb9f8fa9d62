#include "harness/results/summaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "harness/results/stand_in.h"
#include "harness/scoring/exactness.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr double kMostGaps = 0.02;  // of the wall time, without a mark

std::string grade_in(const json& round) {
  const json exactness = round.value("exactness", json());
  return exactness.is_object() ? exactness.at("grade").get<std::string>() : "";
}

/// Whether `a` is worse; a grade is worse than none, and any other than "baseline".
bool is_worse(const std::string& a, const std::string& b) {
  const auto rank = [](const std::string& grade) {
    return grade.empty() ? -2 : grade == "baseline" ? -1 : static_cast<int>(grade_of(grade));
  };
  return rank(a) > rank(b);
}

/// The index of the first round with the worst grade; none where no round has one.
std::optional<size_t> worst_round(const std::vector<json>& rounds) {
  std::optional<size_t> worst;
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (is_worse(grade_in(rounds[i]), worst ? grade_in(rounds[*worst]) : "")) worst = i;
  }
  return worst;
}

bool has_failed(const json& replay) {
  return replay.is_object() && replay.at("beyond").get<int64_t>() > 0;
}

/// The records of one case in the journal.
struct CaseRecords {
  json last;
  std::map<std::string, std::vector<json>> rounds;  // by result key
};

CaseSummary summarize_case(CaseRecords records) {
  CaseSummary summary;
  summary.last = std::move(records.last);
  if (summary.last.at("kind") == "failure") {
    summary.failure =
        fmt::format("{}: {}", summary.last.value("stage", ""), summary.last.value("message", ""));
    return summary;
  }
  summary.rounds = std::move(records.rounds[summary.last.value("result_key", "")]);
  std::ranges::stable_sort(summary.rounds, {}, [](const json& r) { return r.value("round", 0); });
  for (const json& round : summary.rounds)
    summary.deterministic = summary.deterministic && round.value("deterministic", true);
  if (const auto worst = worst_round(summary.rounds)) {
    summary.grade = grade_in(summary.rounds[*worst]);
    summary.first_difference =
        summary.rounds[*worst]["exactness"].value("first_difference", json());
  }
  for (const json& round : summary.rounds) {
    const json replay = round.value("/exactness/replay"_json_pointer, json());
    if (replay.is_object() && !has_failed(summary.replay)) summary.replay = replay;
  }
  return summary;
}

std::vector<CaseSummary> summarize_all(const std::vector<json>& records) {
  std::vector<CaseRecords> cases;
  std::map<std::string, size_t> index;
  std::map<std::string, const json*> provenances;
  double cv_max = CaseSummary().cv_max;
  for (const json& record : records) {
    if (record.value("profiled", false)) {
      throw UserError("records", "come from `rtfx profile`, whose times include the profiler's",
                      "give the journal of `rtfx run`");
    }
    const std::string kind = record.value("kind", "");
    if (kind == "provenance") {
      provenances[record.value("provenance_id", "")] = &record;
      cv_max = record.value("/config/protocol/cv_max"_json_pointer, CaseSummary().cv_max);
    }
    if (kind != "run" && kind != "stream" && kind != "failure") continue;
    const auto [found, fresh] = index.emplace(record.at("case"), cases.size());
    if (fresh) cases.emplace_back();
    CaseRecords& of_case = cases[found->second];
    of_case.last = record;
    if (kind != "failure") of_case.rounds[record.value("result_key", "")].push_back(record);
  }
  std::vector<CaseSummary> summaries;
  for (CaseRecords& of_case : cases) {
    summaries.push_back(summarize_case(std::move(of_case)));
    CaseSummary& summary = summaries.back();
    summary.cv_max = cv_max;
    const auto provenance = provenances.find(summary.last.value("provenance_id", ""));
    summary.stand_in_data = stand_in_data(
        summary.last, provenance == provenances.end() ? json::object() : *provenance->second);
  }
  return summaries;
}

bool is_stream(const CaseSummary& summary) { return summary.last.at("kind") == "stream"; }

json metrics_json(const CaseSummary& summary) {
  std::set<std::string> names;
  for (const json& round : summary.rounds)
    for (const auto& [name, value] : round.at("metrics").items()) names.insert(name);
  json metrics = json::object();
  for (const std::string& name : names) {
    if (const auto values = summary.values(name); !values.empty()) {
      const Summary s = summarize(values);
      metrics[name] = {{"mean", s.mean}, {"sd", s.sd}};
    }
  }
  return metrics;
}

/// Regions that every round has.
json regions_json(const CaseSummary& summary) {
  json regions = json::object();
  if (summary.rounds.empty()) return regions;
  const json first = summary.rounds.front().value("regions", json::object());
  for (const auto& [name, region] : first.items()) {
    std::vector<double> seconds;
    for (const json& round : summary.rounds) {
      const json value = round.value("regions", json::object()).value(name, json::object());
      if (value.value("host_seconds", json()).is_number()) seconds.push_back(value["host_seconds"]);
    }
    if (seconds.size() == summary.rounds.size()) regions[name] = summarize(seconds).mean;
  }
  return regions;
}

json case_json(const CaseSummary& summary) {
  const auto worst = worst_round(summary.rounds);
  return {{"name", summary.case_name()},
          {"last", summary.last},
          {"rounds", summary.rounds},
          {"failure", summary.failure ? summary.last : json()},
          {"grade", summary.grade.empty() ? json() : json(summary.grade)},
          {"worst_round", worst ? json(*worst) : json()},
          {"first_difference", summary.first_difference},
          {"replay", summary.replay},
          {"deterministic", summary.deterministic},
          {"noisy", summary.noisy()},
          {"marks", summary.marks()},
          {"stand_in_data", summary.stand_in_data.empty() ? json() : json(summary.stand_in_data)},
          {"metrics", metrics_json(summary)},
          {"regions", regions_json(summary)}};
}

}  // namespace

bool is_shown(const json& record, std::string_view metric) {
  static const json::json_pointer head("/decoder/head");
  return record.value(head, json()) != "none" || metric == "rtfx.total" || metric == "rtfx.wall" ||
         metric == "rtfx.encode_decode" || metric.starts_with("batch_ms.") ||
         metric.starts_with("busy.") || metric.starts_with("energy.");
}

std::vector<double> CaseSummary::values(const std::string& metric) const {
  std::vector<double> list;
  for (const json& round : rounds) {
    if (!is_shown(round, metric)) continue;
    const json value = round.at("metrics").value(metric, json());
    if (value.is_number()) list.push_back(value);
  }
  return list;
}

bool CaseSummary::noisy() const {
  const std::vector<double> totals = values("rtfx.total");
  return totals.size() > 1 && summarize(totals).cv() > cv_max;
}

json CaseSummary::word_errors() const {
  const json errors = last.value("wer", json());
  const bool known = !failure && is_shown(last, "wer") && errors.is_object();
  return known && errors.value("wer", json()).is_number() ? errors : json();
}

std::optional<double> CaseSummary::gaps() const {
  double wall = 0, gap = 0;
  for (const json& round : rounds) {
    if (!round.contains("wall_seconds")) return std::nullopt;
    wall += round["wall_seconds"].get<double>();
    gap += round["wall_seconds"].get<double>() - round.at("total_seconds").get<double>();
  }
  return wall > 0 ? std::optional(gap / wall) : std::nullopt;
}

std::map<std::string, int64_t> CaseSummary::suspect_reasons() const {
  std::map<std::string, int64_t> reasons;
  for (const json& round : rounds) {
    for (const json& reason : round.value("suspect", json::array()))
      ++reasons[reason.is_string() ? reason.get<std::string>() : reason.dump()];
  }
  return reasons;
}

std::optional<double> CaseSummary::suspect_share() const {
  const auto known = [](const json& round) { return round.contains("suspect"); };
  if (rounds.empty() || !std::ranges::all_of(rounds, known)) return std::nullopt;
  const auto suspect = std::ranges::count_if(rounds, [](auto& r) { return !r["suspect"].empty(); });
  return static_cast<double>(suspect) / static_cast<double>(rounds.size());
}

std::vector<std::string> CaseSummary::marks() const {
  std::vector<std::string> list;
  if (has_failed(replay)) {
    list.push_back(fmt::format("BEYOND ROUNDING {}/{}", replay["beyond"].get<int64_t>(),
                               replay["decisions"].get<int64_t>()));
  }
  if (!deterministic) list.emplace_back("NONDETERMINISTIC");
  if (noisy()) list.emplace_back("NOISY");
  if (std::ranges::any_of(rounds, [](const json& r) { return r.value("all_empty", false); }))
    list.emplace_back("EMPTY");
  size_t overloaded = 0, suspect = 0;
  for (const json& round : rounds) {
    overloaded += round.value("stable", true) ? 0 : 1;
    suspect += round.value("suspect", json::array()).empty() ? 0 : 1;
  }
  if (overloaded > 0) list.emplace_back("OVERLOADED");
  if (suspect > 0) list.push_back(fmt::format("suspect {}/{}", suspect, rounds.size()));
  if (!failure && last.contains("pipeline")) {
    // All rounds together name the stage, since it may be chance in a single one.
    std::string stage;
    double most = 0;
    for (const auto& [metric, _] : last.at("metrics").items()) {
      if (!metric.starts_with("busy.")) continue;
      const std::vector<double> busy = values(metric);
      const double mean = busy.empty() ? 0 : summarize(busy).mean;
      if (mean > most) most = mean, stage = metric.substr(5);
    }
    list.push_back(stage.empty() ? "overlapped"
                                 : fmt::format("overlapped, {} {:.0f} % busy", stage, 100 * most));
  }
  if (gaps().value_or(0) > kMostGaps) list.push_back(fmt::format("gaps {:.1f} %", 100 * *gaps()));
  for (std::string& mark : stand_ins()) list.push_back(std::move(mark));
  return list;
}

Meanings meanings_of_marks(const std::vector<CaseSummary>& cases) {
  static const Meanings all = {
      {"BEYOND ROUNDING", "so many of all replayed decisions are not the best one up to rounding"},
      {"NONDETERMINISTIC", "the decoder did not repeat its own hypotheses"},
      {"NOISY", "the rounds differ by more than protocol.cv_max, so measure again"},
      {"EMPTY", "no result has a token, though the audio has words or sound"},
      {"OVERLOADED", "the queue of the streams grew during the whole run"},
      {"suspect", "the machine disturbed so many of all rounds"},
      {"overlapped",
       "batches overlap, so the total RTFx is by the wall clock of a pass, and decoding has no "
       "time of "
       "its own; the mark names the busiest stage and its share of the pass"},
      {"gaps",
       "so much of the batches' wall time lies between the regions, and no figure counts it"}};
  static const std::map<std::string, std::string> why = {
      {"cpu_wait", "threads waited for a CPU for over 10 % of the round"},
      {"sm_clock", "the GPU's mean clock was below 75 % of its maximum"},
      {"sw_power_cap", "its power limit held its clocks down"},
      {"hw_slowdown", "heat or power halved its clocks"},
      {"sw_thermal", "heat held its clocks down"},
      {"hw_thermal", "heat halved its clocks"},
      {"hw_power_brake", "the power supply halved its clocks"}};
  Meanings meanings;
  for (const auto& [mark, meaning] : all) {
    const bool used = std::ranges::any_of(cases, [&](const CaseSummary& c) {
      return std::ranges::any_of(c.marks(), [&](const auto& m) { return m.starts_with(mark); });
    });
    if (used) meanings.emplace_back(mark, meaning);
    if (!used || mark != "suspect") continue;
    std::set<std::string> reasons;
    for (const CaseSummary& c : cases) {
      for (const auto& [reason, rounds] : c.suspect_reasons()) reasons.insert(reason);
    }
    std::string text;
    for (const std::string& reason : reasons) {
      const auto known = why.find(reason);
      text += (text.empty() ? "" : "; ") + reason;
      if (known != why.end()) text += ": " + known->second;
    }
    meanings.back().second += " (" + text + ")";
  }
  return meanings;
}

std::vector<std::string> CaseSummary::stand_ins() const {
  return stand_in_marks(last, stand_in_data);
}

std::string beyond_rounding(const CaseSummary& summary) {
  if (!has_failed(summary.replay)) return "";
  const json& d = summary.replay.at("first");
  if (!d.is_object()) return "";
  const auto figure = [&](const char* name) {
    return d.at(name).is_number() ? fmt::format("{:.3g}", d[name].get<double>()) : "infinite";
  };
  const std::string kind = d.at("kind");
  const std::string what = kind == "label" || kind == "duration"
                               ? fmt::format("{} {} instead of {}", kind,
                                             d["chosen"].get<int64_t>(), d["best"].get<int64_t>())
                               : kind;
  return fmt::format("{} at frame {} ({:.2f} s) of '{}', gap {}, bound {}", what,
                     d["frame"].get<int64_t>(), d["seconds"].get<double>(),
                     d["utterance"].get<std::string>(), figure("gap"), figure("bound"));
}

std::string CaseSummary::grade_text() const {
  if (failure) return "FAILED";
  const bool approximate = last.value("/decoder/exactness"_json_pointer, json()) == "approximate";
  return grade.empty() || !approximate ? grade : grade + " ~";
}

std::vector<CaseSummary> summarize_cases(const std::vector<json>& records) {
  std::vector<CaseSummary> cases = summarize_all(records);
  std::erase_if(cases, is_stream);
  return cases;
}

std::vector<CaseSummary> summarize_streams(const std::vector<json>& records) {
  std::vector<CaseSummary> cases = summarize_all(records);
  std::erase_if(cases, std::not_fn(is_stream));
  return cases;
}

record::Summary summary_record(const CaseSummary& summary) {
  const auto spread = [&](const char* metric) -> Nullable<record::Spread> {
    const std::vector<double> values = summary.values(metric);
    if (values.empty()) return std::nullopt;
    const Summary s = summarize(values);
    record::Spread field;
    field.mean = s.mean;
    field.sd = s.sd;
    field.min = s.min;
    field.max = s.max;
    return field;
  };
  const std::vector<double> totals = summary.values("rtfx.total");
  record::Summary record;
  record.kind = "summary";
  record.schema = 1;
  record.case_name = summary.case_name();
  record.result_key = summary.last.at("result_key");
  record.rounds = static_cast<int64_t>(totals.size());
  record.rtfx_total = spread("rtfx.total");
  record.rtfx_decode = spread("rtfx.decode");
  if (!summary.grade.empty()) record.grade = summary.grade;
  record.deterministic = summary.deterministic;
  record.cv = Number(summarize(totals).cv());
  record.noisy = summary.noisy();
  return record;
}

json summaries_json(const std::vector<json>& records) {
  json all = {{"provenances", json::array()}, {"cases", json::array()}, {"streams", json::array()}};
  for (const json& record : records) {
    if (record.value("kind", "") == "provenance") all["provenances"].push_back(record);
  }
  const std::vector<CaseSummary> summaries = summarize_all(records);
  for (const CaseSummary& summary : summaries)
    all[is_stream(summary) ? "streams" : "cases"].push_back(case_json(summary));
  all["mark_meanings"] = json::object();
  for (const auto& [mark, meaning] : meanings_of_marks(summaries))
    all["mark_meanings"][mark] = meaning;
  return all;
}

}  // namespace rtfx
