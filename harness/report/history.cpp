#include "harness/report/history.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/results/comparability.h"
#include "harness/results/metrics.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// Accepts journal.jsonl, journal.jsonl.3, any_name.jsonl and any_name.jsonl.gz, but no file in the
/// folders beside a journal.
bool may_be_journal(const std::filesystem::path& path) {
  for (const auto& part : path) {
    if (part == "hypotheses" || part == "shards") return false;
  }
  const std::string ending = ".jsonl";
  std::string name = path.filename().string();
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const size_t at = name.rfind(ending);
  return at != std::string::npos &&
         name.find_first_not_of(".0123456789", at + ending.size()) == std::string::npos;
}

/// A file or folder that cannot be read must not end the whole history: it is named on standard
/// error.
void note_left_out(const UserError& error) {
  print_message("rtfx: notice: {}; left out\n", printable(error.what()));
}

/// Throws UserError for a folder whose entries cannot be read.
void require_readable(const std::filesystem::path& folder) {
  if (access(folder.c_str(), R_OK | X_OK) != 0)
    throw UserError(folder.string(), std::strerror(errno), "check its permissions");
}

/// Other files of JSON lines, such as manifests, need not follow docs/journal.md.
bool is_journal(const std::filesystem::path& path) {
  std::string line;
  try {
    TextLines lines(path, TextCheck::none);
    std::string_view first;
    if (!lines.next(first)) return false;
    line = first;
  } catch (const UserError& error) {
    note_left_out(error);
    return false;
  }
  const json first = json::parse(line, nullptr, /*allow_exceptions=*/false);
  return first.is_object() && first.value("schema", json()) == 1 && first.contains("kind") &&
         first.value("profiled", json()) != true;
}

/// Null if there is no figure.
json interval_json(const char* metric, const CaseResult& result) {
  const auto interval = metric_interval(find_metric(metric, ""), result);
  return interval ? to_json(*interval) : json();
}

json point(const CaseResult& result) {
  const record::Build build = result.provenance().rtfx.value_or(record::Build());
  const std::vector<double> wer = metric_values(find_metric("wer", ""), result.rounds());
  return {{"revision", build.revision.value_or("")},
          {"dirty", build.dirty.value_or(false)},
          {"started", result.provenance().started.value_or("")},
          {"rounds", result.rounds().size()},
          {"rtfx.total", interval_json("rtfx.total", result)},
          {"rtfx.decode", interval_json("rtfx.decode", result)},
          {"wer", wer.empty() ? json() : json(wer.back())}};
}

}  // namespace

std::vector<ResultSet> read_history(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(folder.string(), "is no folder",
                    "give the folder that holds the journals of earlier runs");
  }
  require_readable(folder);
  std::set<std::filesystem::path> files;
  std::error_code
      unknown;  // an entry may vanish meanwhile, or lead to a folder that cannot be read
  std::filesystem::recursive_directory_iterator entries(
      folder, std::filesystem::directory_options::skip_permission_denied);
  for (; entries != std::filesystem::recursive_directory_iterator(); ++entries) {
    const std::filesystem::path& path = entries->path();
    if (entries->is_directory(unknown) && !entries->is_symlink(unknown)) {
      try {
        require_readable(path);
      } catch (const UserError& error) {
        note_left_out(error);
        entries.disable_recursion_pending();
      }
    }
    // Every command reads the plain journal where a packed copy is beside it.
    if (path.extension() == ".gz" &&
        std::filesystem::exists(path.parent_path() / path.stem(), unknown))
      continue;
    if (entries->is_regular_file(unknown) && may_be_journal(path.lexically_relative(folder)) &&
        is_journal(path))
      files.insert(path);
  }
  std::vector<ResultSet> results;
  for (const auto& file : files) {
    try {
      results.push_back(read_results(file));
    } catch (const UserError& error) {
      note_left_out(error);
    }
  }
  return results;
}

json history(const ResultSet& run, const std::vector<ResultSet>& others) {
  json cases = json::array();
  int64_t other_conditions = 0, journals = 0;
  const auto same_file = [&](const ResultSet& other) {
    std::error_code missing;
    return std::filesystem::equivalent(run.journal, other.journal, missing);
  };
  for (const ResultSet& other : others) journals += same_file(other) ? 0 : 1;
  for (const CaseResult& result : run.cases) {
    if (result.rounds().empty()) continue;
    const json conditions = conditions_of(result);
    std::vector<json> points = {point(result)};
    for (const ResultSet& other : others) {
      const CaseResult* earlier = same_file(other) ? nullptr : other.find(result.name());
      if (earlier == nullptr || earlier->rounds().empty()) continue;
      if (conditions_of(*earlier) == conditions) {
        points.push_back(point(*earlier));
      } else {
        ++other_conditions;
      }
    }
    if (points.size() < 2) continue;
    std::stable_sort(points.begin(), points.end(), [](const json& a, const json& b) {
      return a["started"].get_ref<const std::string&>() <
             b["started"].get_ref<const std::string&>();
    });
    cases.push_back({{"case", result.name()}, {"points", std::move(points)}});
  }
  return {
      {"journals", journals}, {"other_conditions", other_conditions}, {"cases", std::move(cases)}};
}

}  // namespace rtfx
