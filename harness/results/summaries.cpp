#include "harness/results/summaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "harness/scoring/exactness.h"

namespace rtfx {
namespace {

using nlohmann::json;

void add_run(CaseSummary& summary, const json& record) {
  if (summary.last.is_null() ||
      summary.last.value("result_key", "") != record.value("result_key", "")) {
    summary = {};
  }
  summary.failure.reset();
  summary.last = record;
  const json& metrics = record.at("metrics");
  if (metrics.at("rtfx.total").is_number()) summary.totals.push_back(metrics["rtfx.total"]);
  if (metrics.at("rtfx.decode").is_number()) summary.decodes.push_back(metrics["rtfx.decode"]);
  summary.deterministic = summary.deterministic && record.value("deterministic", true);
  const json& exactness = record.at("exactness");
  if (!exactness.is_object()) return;
  const std::string verdict = exactness.at("verdict");
  const bool worse = summary.verdict.empty() ||
                     (verdict != "reference" && grade_of(verdict) > grade_of(summary.verdict));
  if (worse) {
    summary.verdict = verdict;
    summary.first_difference = exactness.at("first_difference");
  }
}

}  // namespace

bool CaseSummary::noisy(double cv_max) const {
  return totals.size() > 1 && summarize(totals).cv() > cv_max;
}

std::vector<CaseSummary> summarize_cases(const std::vector<json>& records) {
  std::vector<CaseSummary> cases;
  std::map<std::string, size_t> index;
  for (const json& record : records) {
    if (record.value("profiled", false)) {
      throw UserError("records", "come from `rtfx profile`, whose times include the profiler's",
                      "give the journal of `rtfx run`");
    }
    const std::string kind = record.value("kind", "");
    if (kind != "run" && kind != "failure") continue;
    const auto [found, fresh] = index.emplace(record.at("case"), cases.size());
    if (fresh) cases.emplace_back();
    CaseSummary& summary = cases[found->second];
    if (kind == "run") {
      add_run(summary, record);
    } else {
      summary.last = record;
      summary.failure =
          fmt::format("{}: {}", record.value("stage", ""), record.value("message", ""));
    }
  }
  return cases;
}

json summary_record(const CaseSummary& summary, double cv_max) {
  const auto figures = [](const std::vector<double>& values) -> json {
    if (values.empty()) return nullptr;
    const Summary s = summarize(values);
    return {{"mean", s.mean}, {"sd", s.sd}, {"min", s.min}, {"max", s.max}};
  };
  return {{"kind", "summary"},
          {"schema", 1},
          {"case", summary.case_name()},
          {"result_key", summary.last.at("result_key")},
          {"rounds", summary.totals.size()},
          {"rtfx.total", figures(summary.totals)},
          {"rtfx.decode", figures(summary.decodes)},
          {"verdict", summary.verdict.empty() ? json() : json(summary.verdict)},
          {"deterministic", summary.deterministic},
          {"cv", summarize(summary.totals).cv()},
          {"noisy", summary.noisy(cv_max)}};
}

}  // namespace rtfx
