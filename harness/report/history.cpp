#include "harness/report/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/error.h"
#include "base/files.h"
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

/// Other files of JSON lines, such as manifests, need not follow docs/journal.md, and one that
/// cannot be read must not end the whole history: it is named on standard error.
bool is_journal(const std::filesystem::path& path) {
  std::string line;
  try {
    TextLines lines(path);
    std::string_view first;
    if (!lines.next(first)) return false;
    line = first;
  } catch (const UserError& error) {
    fmt::print(stderr, "rtfx: notice: {}; left out\n", error.what());
    return false;
  }
  const json first = json::parse(line, nullptr, /*allow_exceptions=*/false);
  return first.is_object() && first.value("schema", json()) == 1 && first.contains("kind") &&
         first.value("profiled", json()) != true;
}

/// SHA-256 of the model or dataset with this id; null where the provenance does not tell.
json checksum(const json& provenance, const char* list, const json& id) {
  if (!provenance.contains(list)) return nullptr;
  for (const json& entry : provenance.at(list)) {
    if (entry.at("id") == id) return entry.value("sha256", json());
  }
  return nullptr;
}

/// Checksums of the files among the decoder's options, at any depth.
json checksums(const json& files, const json& options) {
  json found = json::object();
  const json flat = options.flatten();
  for (const auto& [key, value] : flat.items()) {
    if (value.is_string() && files.contains(value.get<std::string>()))
      found[key] = files.at(value.get<std::string>());
  }
  return found;
}

/// Null where there is no figure.
json interval_json(const char* metric, const CaseResult& result) {
  const auto interval = rounds_interval(find_metric(metric, ""), result);
  return interval ? to_json(*interval) : json();
}

json point(const CaseResult& result) {
  const json rtfx = result.provenance.value("rtfx", json::object());
  const std::vector<double> wer = metric_values(find_metric("wer", ""), result.rounds);
  return {{"revision", rtfx.value("revision", "")},
          {"dirty", rtfx.value("dirty", false)},
          {"started", result.provenance.value("started", "")},
          {"rounds", result.rounds.size()},
          {"rtfx.total", interval_json("rtfx.total", result)},
          {"rtfx.decode", interval_json("rtfx.decode", result)},
          {"wer", wer.empty() ? json() : json(wer.back())}};
}

}  // namespace

std::vector<ResultSet> read_history(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(folder.string(), "is no folder",
                    "--history wants the folder that holds the journals of earlier runs");
  }
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::filesystem::path& path = entry.path();
    // Every command reads the plain journal where a packed copy is beside it.
    if (path.extension() == ".gz" && std::filesystem::exists(path.parent_path() / path.stem()))
      continue;
    if (entry.is_regular_file() && may_be_journal(path.lexically_relative(folder)) &&
        is_journal(path))
      files.insert(path);
  }
  std::vector<ResultSet> results;
  for (const auto& file : files) results.push_back(read_results(file));
  return results;
}

json conditions_of(const CaseResult& result) {
  const json& last = result.summary.last;
  const json& about = result.provenance;
  const json config = about.value("config", json::object());
  const json& decoder = last.at("decoder");
  const json exactness = last.value("exactness", json());
  const json wer = last.value("wer", json());
  return {
      {"case", result.name()},
      {"decoder", decoder.at("name")},
      {"options", decoder.value("options", json())},
      {"decoder_files", checksums(about.value("decoder_files", json::object()),
                                  decoder.value("options", json::object()))},
      {"compared_to", exactness.is_object() ? exactness.value("baseline", json()) : json()},
      {"sort", config.value("sort", json())},
      {"scorer", wer.is_object() ? wer.value("normalizer", json()) : json()},
      {"encoder_graphs", config.value("encoder_graphs", json(false))},
      {"threads", about.value("/cpu/threads"_json_pointer, json())},
      {"model", checksum(about, "models", last.at("model").at("id"))},
      {"dataset", checksum(about, "datasets", last.at("dataset").at("id"))},
      {"pipeline", last.value("pipeline", json())},  // of batches that were overlapped
      {"padding", last.value("/regions/pad"_json_pointer, json()).is_object()},  // counted as time
      {"utterances", last.at("dataset").value("utterances", json())},
      {"libtorch", about.value("libtorch", json())},
      {"device", about.value("/device/name"_json_pointer, json())},
      {"shards", about.value("/shards/count"_json_pointer, json(1))},
  };
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
    if (result.rounds.empty()) continue;
    const json conditions = conditions_of(result);
    std::vector<json> points = {point(result)};
    for (const ResultSet& other : others) {
      const CaseResult* earlier = same_file(other) ? nullptr : other.find(result.name());
      if (earlier == nullptr || earlier->rounds.empty()) continue;
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
