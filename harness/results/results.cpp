#include "harness/results/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "harness/results/journal.h"

namespace rtfx {
namespace {

using nlohmann::json;

const json& decoder_of(const json& record) { return record.at("decoder"); }

int64_t round_of(const json& record) { return record.at("round").get<int64_t>(); }

std::vector<CaseResult> cases_of(const std::vector<json>& records,
                                 std::vector<CaseSummary> summaries) {
  std::map<std::string, json> provenances;
  for (const json& record : records) {
    if (record.value("kind", "") == "provenance")
      provenances[record.value("provenance_id", "")] = record;
  }
  std::vector<CaseResult> cases;
  for (CaseSummary& summary : summaries) {
    CaseResult& result = cases.emplace_back();
    const auto found = provenances.find(summary.last.value("provenance_id", ""));
    result.provenance = found == provenances.end() ? json::object() : found->second;
    result.rounds = summary.rounds;
    result.summary = std::move(summary);
  }
  return cases;
}

/// "model/dataset/decoder/streams/dtype" of a case "model/dataset/decoder/streams64/dtype".
std::string name_of_all_streams(const CaseResult& result) {
  const json& last = result.summary.last;
  return fmt::format("{}/{}/{}/streams/{}", last["model"]["id"].get<std::string>(),
                     last["dataset"]["id"].get<std::string>(), result.decoder(),
                     last["dtype"].get<std::string>());
}

/// Adds a case for each decoder with the largest number of streams up to which all were stable.
void add_sustained(std::vector<CaseResult>& streams) {
  std::map<std::string, std::map<double, const CaseResult*>> groups;
  for (const CaseResult& result : streams)
    groups[name_of_all_streams(result)][result.summary.last["batch"]["size"]] = &result;
  std::vector<CaseResult> more;
  for (const auto& [name, by_size] : groups) {
    double most = 0;
    for (const auto& [size, result] : by_size) {
      if (!result->summary.last.value("stable", true)) break;
      most = size;
    }
    CaseResult& all = more.emplace_back(*by_size.begin()->second);
    all.summary.last["case"] = name;
    all.summary.last["batch"]["size"] = most;
    all.summary.last["metrics"] = {{"streams.sustained", most}};
    all.summary.last["stable"] = true;
    all.summary.rounds = all.rounds = {all.summary.last};
  }
  std::ranges::move(more, std::back_inserter(streams));
}

/// Puts the profile's figures of decoding into each case's first round. An equal result key says
/// that both are of one build, model and options.
void add_profiles(std::vector<CaseResult>& cases, const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(plain_or_gzip(file))) return;
  for (const json& record : read_journal(file)) {
    if (record.value("kind", "") != "profile") continue;
    const json decode = record.value("/regions/decode"_json_pointer, json::object());
    const double laps = record.value("laps", 1.0);
    for (CaseResult& result : cases) {
      if (result.rounds.empty() ||
          result.summary.last["result_key"] != record.value("result_key", json()))
        continue;
      json& figures = result.rounds.front()["profile"];
      for (const char* count : {"launches", "graph_launches"}) {
        if (decode.value(count, json()).is_number())
          figures[count] = decode[count].get<double>() / laps;
      }
      const json busy = decode.value("/busy/share"_json_pointer, json());
      if (busy.is_number()) figures["idle"] = std::max(0.0, 1 - busy.get<double>());
    }
  }
}

}  // namespace

std::string CaseResult::group() const {
  const json& last = summary.last;
  std::string group = name();
  const size_t begin = last.at("model").at("id").get<std::string>().size() +
                       last.at("dataset").at("id").get<std::string>().size() + 2;
  return group.erase(begin, decoder().size() + 1);
}

std::string CaseResult::control_of() const {
  return decoder_of(summary.last).value("control_of", "");
}

std::vector<json> CaseResult::clean_rounds() const {
  std::vector<json> clean;
  for (const json& round : rounds) {
    if (round.value("suspect", json::array()).empty()) clean.push_back(round);
  }
  return clean;
}

std::optional<BatchTimes> CaseResult::batch_times(const std::string& region) const {
  BatchTimes times;
  for (const json& round : rounds) {
    const auto batches = round.find("batches");
    if (batches == round.end()) return std::nullopt;
    times.audio = batches->at("audio_seconds").get<std::vector<double>>();
    times.seconds.push_back(batches->at(region + "_seconds").get<std::vector<double>>());
    if (times.seconds.back().size() != times.audio.size()) return std::nullopt;
  }
  if (times.audio.empty()) return std::nullopt;
  return times;
}

std::vector<const CaseResult*> ResultSet::all() const {
  std::vector<const CaseResult*> list;
  for (const CaseResult& result : cases) list.push_back(&result);
  for (const CaseResult& result : streams) list.push_back(&result);
  return list;
}

const CaseResult* ResultSet::find(const std::string& case_name) const {
  const auto found = std::find_if(cases.begin(), cases.end(),
                                  [&](const CaseResult& c) { return c.name() == case_name; });
  return found == cases.end() ? nullptr : &*found;
}

const ResultSet& ResultSet::require_cases() const {
  require_results();
  if (!cases.empty()) return *this;
  throw UserError(journal.string(), "holds results of streams alone",
                  "give the journal of `rtfx run`");
}

const ResultSet& ResultSet::require_results() const {
  if (profiled) {
    throw UserError(journal.string(),
                    "comes from `rtfx profile`, whose times include the profiler's",
                    "give the journal of `rtfx run`");
  }
  if (cases.empty() && streams.empty()) {
    throw UserError(journal.string(), "holds no result", "give the journal of a finished run");
  }
  return *this;
}

std::filesystem::path journal_of(const std::filesystem::path& path) {
  return plain_or_gzip(std::filesystem::is_directory(path) ? path / "journal.jsonl" : path);
}

ResultSet read_results(const std::filesystem::path& path) {
  ResultSet results;
  results.journal = journal_of(path);
  const std::vector<json> records = read_journal(results.journal);
  results.profiled = std::any_of(records.begin(), records.end(),
                                 [](const json& r) { return r.value("profiled", false); });
  for (const json& record : records) {
    if (record.value("kind", "") == "provenance") results.provenance = record;
  }
  if (results.profiled) return results;
  results.cases = cases_of(records, summarize_cases(records));
  results.streams = cases_of(records, summarize_streams(records));
  add_sustained(results.streams);
  add_profiles(results.cases, results.journal.parent_path() / "profile.jsonl");
  return results;
}

Meanings meanings_of(const ResultSet& results) {
  std::vector<CaseSummary> summaries;
  for (const CaseResult* result : results.all()) summaries.push_back(result->summary);
  return meanings_of_marks(summaries);
}

std::optional<std::vector<UtteranceText>> read_hypotheses(const ResultSet& results,
                                                          const CaseResult& result) {
  const std::filesystem::path file =
      results.journal.parent_path() / "hypotheses" /
      (result.summary.last.value("result_key", std::string("none")) + ".jsonl");
  if (!std::filesystem::exists(file)) return std::nullopt;
  std::vector<UtteranceText> texts;
  for (const json& line : read_journal(file)) {
    check_hypothesis(line, file.string());
    UtteranceText& text = texts.emplace_back();
    text.id = line.at("id");
    text.text = line.at("text");
    if (line.at("reference").is_string()) text.reference = line["reference"];
    if (line.contains("seconds")) text.seconds = line["seconds"];
  }
  return texts;
}

std::optional<double> measured_noise_floor(const ResultSet& results, const std::string& group,
                                           const std::string& metric) {
  for (const CaseResult& control : results.cases) {
    if (control.control_of().empty() || control.group() != group) continue;
    for (const CaseResult& original : results.cases) {
      if (original.group() != group || original.decoder() != control.control_of()) continue;
      std::vector<double> a, b;
      for (const json& x : original.rounds) {
        for (const json& y : control.rounds) {
          if (round_of(x) != round_of(y)) continue;
          const json left = x.at("metrics").value(metric, json());
          const json right = y.at("metrics").value(metric, json());
          if (!left.is_number() || !right.is_number()) continue;
          a.push_back(left);
          b.push_back(right);
        }
      }
      if (!a.empty()) return noise_floor(paired_ratio(a, b));
    }
  }
  return std::nullopt;
}

}  // namespace rtfx
