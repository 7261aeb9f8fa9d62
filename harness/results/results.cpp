#include "harness/results/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/results/journal.h"

namespace rtfx {
namespace {

/// Returns "model/dataset/decoder/streams/dtype" for a case
/// "model/dataset/decoder/streams64/dtype".
std::string name_of_all_streams(const CaseResult& result) {
  const record::Case& about = result.about();
  return fmt::format("{}/{}/{}/streams/{}", about.model.id, about.dataset.id, result.decoder(),
                     about.dtype);
}

using BySize = std::multimap<double, const CaseResult*>;

/// Returns the largest number that a rule has confirmed. Without a rule, returns the largest number
/// up to which all were stable and kept `stream.slo_ms`, if they had such a limit. `failed` is the
/// least number that failed, which ends them too.
double most_sustained(const BySize& by_size, double failed) {
  double kept = 0, confirmed = 0;
  bool by_rule = false, all_kept = true;
  for (const auto& [size, result] : by_size) {
    const auto& run = std::get<record::StreamRun>(result->summary.last);
    const bool* within_limit = known(run.slo);  // null: no limit was set
    by_rule = by_rule || run.confirms;
    if (run.confirms == true && within_limit != nullptr && *within_limit) confirmed = size;
    all_kept =
        all_kept && size < failed && run.stable && (within_limit == nullptr || *within_limit);
    if (all_kept) kept = size;
  }
  return by_rule ? confirmed : kept;
}

/// Adds a case for each decoder with the largest number of streams that was sustained. `cases`
/// holds the numbers of streams that failed. A failure under other settings than those of the
/// group's results does not count.
void add_sustained(std::vector<CaseResult>& streams, const std::vector<CaseResult>& cases) {
  std::map<std::pair<std::string, std::string>, double> failed;  // by group and result key
  for (const CaseResult& result : cases) {
    const auto size = result.summary.failure ? streams_of(result.about()) : std::nullopt;
    if (!size) continue;
    const std::pair key(name_of_all_streams(result), result.about().result_key);
    double& least = failed.try_emplace(key, *size).first->second;
    least = std::min(least, static_cast<double>(*size));
  }
  std::map<std::string, BySize> groups;
  for (const CaseResult& result : streams)
    groups[name_of_all_streams(result)].emplace(result.about().batch.size, &result);
  std::vector<CaseResult> more;
  for (const auto& [name, by_size] : groups) {
    double least_failed = std::numeric_limits<double>::infinity();
    for (const auto& [size, result] : by_size) {
      const auto failure = failed.find({name, result->about().result_key});
      if (failure != failed.end()) least_failed = std::min(least_failed, failure->second);
    }
    const double most = most_sustained(by_size, least_failed);
    CaseResult& all = more.emplace_back(*by_size.begin()->second);
    all.sustained = true;
    auto& last = std::get<record::StreamRun>(all.summary.last);
    last.case_name = name;
    last.batch.size = most;
    last.metrics = {{"streams.sustained", most}};
    last.stable = true;
    all.summary.rounds = {last};
  }
  std::ranges::move(more, std::back_inserter(streams));
}

std::optional<double> of_a_lap(const Optional<Nullable<int64_t>>& count, double laps) {
  const int64_t* number = known(count);
  return number == nullptr ? std::nullopt : std::optional(static_cast<double>(*number) / laps);
}

/// Puts the profile's figures of decoding into each case's first round. An equal result key shows
/// that both have one build, model and options. An INVALID profile lacks records of kernels, and is
/// ignored.
void add_profiles(std::vector<CaseResult>& cases, const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(plain_or_gzip(file))) return;
  for (const record::Any& record : read_journal(file)) {
    const auto* profile = std::get_if<record::Profile>(&record);
    if (profile == nullptr || !profile->regions || !profile->valid.value_or(true)) continue;
    const auto decode = profile->regions->find("decode");
    if (decode == profile->regions->end()) continue;
    const double laps = static_cast<double>(profile->laps.value_or(1));
    for (CaseResult& result : cases) {
      auto* run = result.rounds().empty()
                      ? nullptr
                      : std::get_if<record::Run>(&result.summary.rounds.front());
      if (run == nullptr || result.about().result_key != profile->result_key) continue;
      run->profile.launches = of_a_lap(decode->second.launches, laps);
      run->profile.graph_launches = of_a_lap(decode->second.graph_launches, laps);
      if (const record::BusyShare* busy = known(decode->second.busy))
        run->profile.idle = std::max(0.0, 1 - busy->share);
    }
  }
}

/// Says how many records do not count because they repeat others.
void note_repeated(const std::vector<CaseSummary>& summaries, const std::filesystem::path& file) {
  int64_t repeated = 0;
  for (const CaseSummary& summary : summaries) repeated += summary.repeated;
  if (repeated == 0) return;
  print_message("rtfx: notice: {}: {} {} word for word and {} once\n", printable(file.string()),
                repeated, repeated == 1 ? "record repeats another" : "records repeat others",
                repeated == 1 ? "counts" : "count");
}

}  // namespace

bool is_new_journal(std::set<std::filesystem::path>& journals, const std::filesystem::path& file) {
  std::error_code unnamed;
  const std::filesystem::path path = std::filesystem::weakly_canonical(file, unnamed);
  return unnamed || journals.insert(path).second;
}

std::string scorer_of(const CaseResult& result) {
  const auto* run =
      result.rounds().empty() ? nullptr : std::get_if<record::Run>(&result.rounds().front());
  return run == nullptr ? "" : fmt::format("{} version {}", run->wer.normalizer, run->wer.version);
}

const record::Provenance& CaseResult::provenance() const {
  static const record::Provenance kNone;
  return shared_provenance ? *shared_provenance : kNone;
}

std::vector<const record::Provenance*> CaseResult::provenances() const {
  std::vector<const record::Provenance*> list = {&provenance()};
  for (const auto& other : other_provenances) list.push_back(other.get());
  return list;
}

std::string CaseResult::control_of() const { return about().decoder.control_of.value_or(""); }

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
  Summarizer summarizer;
  read_journal(results.journal, [&](record::Any&& record) {
    results.profiled = results.profiled || record::common_fields(record).profiled == true;
    if (const auto* provenance = std::get_if<record::Provenance>(&record))
      results.provenances.push_back(*provenance);
    if (!results.profiled) summarizer.add(std::move(record));
  });
  if (!results.provenances.empty()) results.provenance = results.provenances.back();
  if (results.profiled) return results;
  std::map<std::string, std::shared_ptr<const record::Provenance>> by_id;
  for (const record::Provenance& one : results.provenances)
    by_id[one.provenance_id.value_or("")] = std::make_shared<const record::Provenance>(one);
  std::vector<CaseSummary> summaries = summarizer.finish();
  note_repeated(summaries, results.journal);
  const auto streams = static_cast<size_t>(std::ranges::count_if(summaries, is_stream));
  results.cases.reserve(summaries.size() - streams);
  results.streams.reserve(streams);
  for (CaseSummary& summary : summaries) {
    CaseResult result;
    const std::string last = record::common_fields(summary.last).provenance_id.value_or("");
    const auto found = by_id.find(last);
    if (found != by_id.end()) result.shared_provenance = found->second;
    std::set<std::string> seen = {last};
    for (const record::Round& round : summary.rounds) {
      const std::string id = record::common_fields(round).provenance_id.value_or("");
      if (seen.insert(id).second && by_id.contains(id))
        result.other_provenances.push_back(by_id.at(id));
    }
    result.summary = std::move(summary);
    (is_stream(result.summary) ? results.streams : results.cases).push_back(std::move(result));
  }
  add_sustained(results.streams, results.cases);
  add_profiles(results.cases, results.journal.parent_path() / "profile.jsonl");
  return results;
}

Summaries all_of(const ResultSet& results) {
  Summaries summaries;
  for (const CaseResult& result : results.cases) summaries.emplace_back(result.summary);
  return summaries;
}

Meanings meanings_of(const ResultSet& results) {
  Summaries summaries;
  for (const CaseResult* result : results.all()) summaries.emplace_back(result->summary);
  return meanings_of_marks(summaries);
}

namespace {

/// One line of a hypotheses file; other readers take more from it.
struct HypothesisLine {
  std::string id, text;
  Nullable<std::string> reference;
  Optional<Number> seconds;
  Box<nlohmann::json> other;
  static const RecordTable<HypothesisLine>& table() {
    static const auto table =
        RecordTable<HypothesisLine>("hypothesis", "")
            .add("id", &HypothesisLine::id, "", "id of the utterance")
            .add("text", &HypothesisLine::text, "", "its text")
            .add("reference", &HypothesisLine::reference, "", "text of the dataset")
            .add("seconds", &HypothesisLine::seconds, "s", "its audio", kNotNegative);
    return table;
  }
};

}  // namespace

std::optional<std::vector<UtteranceText>> read_hypotheses(const ResultSet& results,
                                                          const CaseResult& result) {
  const std::filesystem::path file = plain_or_gzip(results.journal.parent_path() / "hypotheses" /
                                                   (result.about().result_key + ".jsonl"));
  if (!std::filesystem::exists(file)) return std::nullopt;
  std::vector<UtteranceText> texts;
  TextLines lines(file, TextCheck::none);
  for (std::string_view line; lines.next(line);) {
    const std::string where = fmt::format("{}:{}", file.string(), lines.number());
    nlohmann::json object;
    try {
      object = parse_json(line, where, "the file was edited or damaged");
    } catch (const UserError&) {
      if (!lines.is_terminated()) break;  // a torn line
      throw;
    }
    if (!object.is_object())
      throw UserError(where, "not a JSON object", "the file was edited or damaged");
    check_object(object, HypothesisLine::table().info(), where);
    HypothesisLine read = HypothesisLine::table().read(object);
    texts.push_back({std::move(read.id), std::move(read.text), std::move(read.reference),
                     read.seconds ? std::optional<double>(*read.seconds) : std::nullopt});
  }
  return texts;
}

}  // namespace rtfx
