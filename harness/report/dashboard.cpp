#include "harness/report/dashboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "harness/report/history.h"
#include "harness/report/python_script.h"
#include "harness/report/report.h"
#include "harness/results/comparability.h"
#include "harness/results/journal.h"
#include "harness/results/metrics.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// Returns, for example, "NVIDIA H200" or "AMD EPYC, 1 thread".
std::string machine_of(const record::Provenance& provenance) {
  const record::Device device = provenance.device.value_or(record::Device());
  std::string name = device.name.value_or("unknown");
  if (device.type != "cpu") return name;
  const int64_t threads = provenance.cpu ? provenance.cpu->threads.value_or(0) : 0;
  return fmt::format("{}, {} {}", name, threads, threads == 1 ? "thread" : "threads");
}

json case_facts(const CaseResult& result) {
  const record::Case& about = result.about();
  const record::Batch& batch = about.batch;
  return {{"case", result.name()},
          {"model", about.model.id},
          {"dataset", about.dataset.id},
          {"decoder", result.decoder()},
          {"batch", fmt::format("{:g}{}", static_cast<double>(batch.size),
                                batch.by == "seconds" ? " s" : "")},
          {"dtype", about.dtype},
          {"conditions", conditions_of(result)},
          {"grade", result.summary.grade_text()},
          {"failure", result.summary.failure ? json(*result.summary.failure) : json()},
          {"marks", result.summary.marks()},
          {"figures", figures_json(result)}};
}

/// Adds a run for each build in the journal. Its cases may come from several invocations.
void add_runs(std::vector<json>& runs, const std::string& journal, const ResultSet& results) {
  std::map<std::string, json> by_invocation;
  for (const CaseResult* result : results.all()) {
    const record::Provenance& about = result->provenance();
    json& run = by_invocation[about.provenance_id.value_or("")];
    if (run.is_null()) {
      const record::Build build = about.rtfx.value_or(record::Build());
      run = {{"journal", journal},
             {"started", about.started.value_or("")},
             {"revision", build.revision.value_or("")},
             {"dirty", build.dirty.value_or(false)},
             {"machine", machine_of(about)},
             {"cases", json::array()}};
    }
    run["cases"].push_back(case_facts(*result));
  }
  for (auto& [id, run] : by_invocation) runs.push_back(std::move(run));
}

/// Returns the page of a journal, where plots/dashboard.py looks for it. It is "h200/greedy.html"
/// for "h200/greedy.jsonl.gz", and "h200/journal.1.html" for an earlier run that --force kept.
std::string page_name(std::string journal) {
  if (journal.ends_with(".gz")) journal.resize(journal.size() - 3);
  constexpr std::string_view kEnding = ".jsonl";
  return journal.erase(journal.rfind(kEnding), kEnding.size()) + ".html";
}

/// Returns whether it is the journal of an earlier run that --force kept. The files beside it
/// belong to a later run.
bool is_kept(const std::filesystem::path& journal) {
  return journal.extension() != ".jsonl" && journal.extension() != ".gz";
}

/// Returns whether the page beside the journal shows it. A page that is older shows an earlier run,
/// or fewer rounds. A copy or checkout of both may write the page up to a second earlier.
bool has_page(const std::filesystem::path& journal) {
  const std::filesystem::path page = page_of(journal);
  if (is_kept(journal) || !std::filesystem::exists(page)) return false;
  return std::filesystem::last_write_time(page) + std::chrono::seconds(1) >=
         std::filesystem::last_write_time(journal);
}

}  // namespace

json dashboard_facts(const std::filesystem::path& folder, const std::vector<ResultSet>& runs) {
  std::vector<json> by_time;
  json meanings = json::object();
  for (const ResultSet& results : runs) {
    add_runs(by_time, results.journal.lexically_relative(folder).string(), results);
    for (const auto& [mark, meaning] : meanings_of(results)) meanings[mark] = meaning;
  }
  std::ranges::stable_sort(by_time, {},
                           [](const json& run) { return run["started"].get<std::string>(); });
  return {{"metrics", metrics_json()}, {"mark_meanings", meanings}, {"runs", by_time}};
}

void dashboard(const DashboardOptions& options) {
  const std::vector<ResultSet> runs = read_history(options.journals);
  if (runs.empty()) {
    throw UserError(options.journals.string(), "holds no journal",
                    "give the folder above those of the runs");
  }
  if (std::ranges::all_of(runs, [](const ResultSet& run) { return run.all().empty(); })) {
    throw UserError(options.journals.string(), "holds no result",
                    "give a folder with the journal of a finished run");
  }
  for (const ResultSet& run : runs) {
    if (run.cases.empty() || !options.pages || has_page(run.journal)) continue;
    const std::string name = run.journal.lexically_relative(options.journals).string();
    const std::filesystem::path page = options.output / "runs" / page_name(name);
    std::filesystem::create_directories(page.parent_path());
    report({.run = run.journal, .output = page, .quiet = true});
  }
  run_script("dashboard", "plots/dashboard.py",
             {options.journals.string(), "-o", options.output.string()},
             to_line(dashboard_facts(options.journals, runs)));
}

}  // namespace rtfx
