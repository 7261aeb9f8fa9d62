#include "harness/results/summaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "base/error.h"
#include "harness/results/stand_in.h"
#include "harness/scoring/exactness.h"
#include "models/dtypes.h"

namespace rtfx {

/// The records of one case in the journal.
struct CaseRecords {
  std::optional<record::Failure> failure;  // if it is the last record
  std::string result_key;                  // key of the last round
  record::Rounds rounds;                   // the last rounds with this key

  void add(record::Failure&& record) { failure = std::move(record); }
  template <class Round>
  void add(Round&& record) {
    if (record.result_key != result_key) rounds.clear();  // measured anew with other settings
    if constexpr (std::is_same_v<Round, record::Run>) {
      // It was measured again to make the failure good.
      const auto is_its = [&](const record::Round& one) {
        return record::number_of(one) == record.round;
      };
      if (failure) std::erase_if(rounds, is_its);
    }
    failure.reset();
    result_key = record.result_key;
    rounds.push_back(std::move(record));
  }
};

namespace {

using nlohmann::json;

constexpr size_t kCleanRounds = 3;  // with fewer clean rounds, all rounds count

const record::Exactness* exactness_of(const record::Round& round) {
  const auto* run = std::get_if<record::Run>(&round);
  return run != nullptr && run->exactness ? &*run->exactness : nullptr;
}

std::string grade_in(const record::Round& round) {
  const record::Exactness* exactness = exactness_of(round);
  return exactness == nullptr ? "" : exactness->grade;
}

/// Returns whether `a` is worse. A grade is worse than no grade, and any other grade is worse than
/// "baseline".
bool is_worse(const std::string& a, const std::string& b) {
  const auto rank = [](const std::string& grade) {
    return grade.empty() ? -2 : grade == "baseline" ? -1 : static_cast<int>(grade_of(grade));
  };
  return rank(a) > rank(b);
}

/// Returns the index of the first round with the worst grade; none if no round has a grade.
std::optional<size_t> worst_round(const record::Rounds& rounds) {
  std::optional<size_t> worst;
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (is_worse(grade_in(rounds[i]), worst ? grade_in(rounds[*worst]) : "")) worst = i;
  }
  return worst;
}

bool has_failed(const Nullable<record::Replay>& replay) { return replay && replay->beyond > 0; }

/// Removes rounds that repeat an earlier one of the same number word for word, and returns their
/// number. A line that is in a journal twice was measured once.
int64_t take_out_repeated(record::Rounds& rounds) {
  std::vector<std::string> seen;  // texts of the rounds with this number
  size_t kept = 0;
  for (size_t i = 0; i < rounds.size(); ++i) {
    const bool again = i > 0 && record::number_of(rounds[i]) == record::number_of(rounds[kept - 1]);
    if (!again) seen.clear();
    const bool more =
        i + 1 < rounds.size() && record::number_of(rounds[i]) == record::number_of(rounds[i + 1]);
    if (again || more) {
      std::string text;
      record::write(rounds[i], text);
      if (std::ranges::find(seen, text) != seen.end()) continue;
      seen.push_back(std::move(text));
    }
    if (kept != i) rounds[kept] = std::move(rounds[i]);
    ++kept;
  }
  const auto repeated = static_cast<int64_t>(rounds.size() - kept);
  rounds.resize(kept);
  return repeated;
}

CaseSummary summarize_case(CaseRecords records) {
  CaseSummary summary;
  if (records.failure) {
    summary.failure = fmt::format("{}: {}", records.failure->stage, records.failure->message);
    summary.last = std::move(*records.failure);
    return summary;
  }
  summary.rounds = std::move(records.rounds);
  std::visit([&](const auto& last) { summary.last = last; }, summary.rounds.back());
  if (!std::ranges::is_sorted(summary.rounds, {}, record::number_of))
    std::ranges::stable_sort(summary.rounds, {}, record::number_of);
  summary.repeated = take_out_repeated(summary.rounds);
  for (const record::Round& round : summary.rounds) {
    const auto* run = std::get_if<record::Run>(&round);
    if (run != nullptr && run->deterministic == false) summary.deterministic = false;
  }
  if (const auto worst = worst_round(summary.rounds)) {
    summary.grade = grade_in(summary.rounds[*worst]);
    summary.first_difference = exactness_of(summary.rounds[*worst])->first_difference;
  }
  for (const record::Round& round : summary.rounds) {
    const record::Exactness* exactness = exactness_of(round);
    const bool replayed = exactness != nullptr && known(exactness->replay) != nullptr;
    if (replayed && !has_failed(summary.replay)) summary.replay = *exactness->replay;
  }
  return summary;
}

double cv_max_of(const record::Provenance& provenance) {
  static const json::json_pointer where("/protocol/cv_max");
  const double usual = CaseSummary().cv_max;
  return provenance.config ? provenance.config->value().value(where, usual) : usual;
}

/// Returns the grade that the configuration requires of an exact decoder in this dtype; `different`
/// if the journal does not say. Readers of journals refuse grades and dtypes that this release does
/// not know.
Grade required_by(const record::Provenance& provenance, const std::string& dtype) {
  if (!provenance.config) return Grade::different;
  static const json::json_pointer where("/verify/required");
  const json required = provenance.config->value().value(where, json());
  if (!required.is_object()) return Grade::different;
  const json name = required.value(dtype_name(parse_dtypes(dtype, "dtype").decoder), json());
  return name.is_string() ? grade_of(name.get<std::string>()) : Grade::different;
}

/// Returns the worst grade of overlapped passes against the isolated one; empty if there is none.
std::string grade_against_isolated(const CaseSummary& summary) {
  std::string worst;
  for (const record::Round& round : summary.rounds) {
    const auto* run = std::get_if<record::Run>(&round);
    if (run == nullptr || !run->isolated) continue;
    const std::string grade(run->isolated->grade);
    if (worst.empty() || grade_of(grade) > grade_of(worst)) worst = grade;
  }
  return worst;
}

json metrics_json(const CaseSummary& summary) {
  std::set<std::string> names;
  for (const record::Round& round : summary.rounds)
    for (const auto& [name, value] : record::metrics(round)) names.insert(name);
  json metrics = json::object();
  for (const std::string& name : names) {
    if (const auto values = summary.values(name); !values.empty()) {
      const Spread s = spread_of(values);
      metrics[name] = {{"mean", s.mean}, {"sd", s.sd}};
    }
  }
  return metrics;
}

/// Returns the regions that every round has.
json regions_json(const CaseSummary& summary) {
  json regions = json::object();
  const auto* first =
      summary.rounds.empty() ? nullptr : std::get_if<record::Run>(&summary.rounds.front());
  if (first == nullptr) return regions;
  for (const auto& [name, _] : first->regions) {
    std::vector<double> seconds;
    for (const record::Round& round : summary.rounds) {
      const auto* run = std::get_if<record::Run>(&round);
      if (run == nullptr) continue;
      const auto region = run->regions.find(name);
      if (region != run->regions.end()) seconds.push_back(region->second.host_seconds);
    }
    if (seconds.size() == summary.rounds.size()) regions[name] = spread_of(seconds).mean;
  }
  return regions;
}

}  // namespace

bool is_stream(const CaseSummary& summary) {
  return std::holds_alternative<record::StreamRun>(summary.last);
}

std::optional<int64_t> streams_of(const record::Case& about) {
  constexpr std::string_view kStreams = "streams";
  const std::string_view name = about.case_name;
  const size_t ids = about.model.id.size() + about.dataset.id.size() + about.decoder.id.size();
  const std::string_view rest = name.substr(std::min(ids + 3, name.size()));
  int64_t streams = 0;
  if (!rest.starts_with(kStreams)) return std::nullopt;
  const auto read =
      std::from_chars(rest.data() + kStreams.size(), rest.data() + rest.size(), streams);
  return read.ec == std::errc() ? std::optional(streams) : std::nullopt;
}

bool supersedes(const record::StreamRun& run, const record::Failure& failure) {
  return failure.result_key.empty() && run.model.id == failure.model.id &&
         run.dataset.id == failure.dataset.id && run.decoder.id == failure.decoder.id &&
         run.dtype == failure.dtype;
}

struct Summarizer::Parts {
  std::vector<CaseRecords> cases;
  std::map<std::string, size_t> index;
  std::map<std::string, record::Provenance> provenances;
  std::string last_provenance;  // its id
  double cv_max = CaseSummary().cv_max;

  template <class Record>
  void add(Record&& record) {
    const auto [found, fresh] = index.emplace(record.case_name, cases.size());
    if (fresh) cases.emplace_back();
    cases[found->second].add(std::move(record));
  }
};

Summarizer::Summarizer() : parts_(std::make_unique<Parts>()) {}
Summarizer::~Summarizer() = default;

void Summarizer::add(record::Any&& record) {
  if (record::common_fields(record).profiled == true) {
    throw UserError("records", "come from `rtfx profile`, whose times include the profiler's",
                    "give the journal of `rtfx run`");
  }
  if (auto* provenance = std::get_if<record::Provenance>(&record)) {
    parts_->cv_max = cv_max_of(*provenance);
    parts_->last_provenance = provenance->provenance_id.value_or("");
    parts_->provenances[parts_->last_provenance] = std::move(*provenance);
  } else if (auto* run = std::get_if<record::Run>(&record)) {
    parts_->add(std::move(*run));
  } else if (auto* stream = std::get_if<record::StreamRun>(&record)) {
    for (CaseRecords& of_case : parts_->cases) {
      if (of_case.failure && supersedes(*stream, *of_case.failure)) of_case.failure.reset();
    }
    parts_->add(std::move(*stream));
  } else if (auto* failure = std::get_if<record::Failure>(&record)) {
    parts_->add(std::move(*failure));
  }
}

std::vector<CaseSummary> Summarizer::finish() {
  // A vector that grows copies its elements where moving them may throw, as that of a deque may.
  std::vector<CaseSummary> summaries, sorted;
  summaries.reserve(parts_->cases.size());
  sorted.reserve(parts_->cases.size());
  for (CaseRecords& of_case : parts_->cases) {
    if (!of_case.failure && of_case.rounds.empty()) continue;  // a failure that was made good
    summaries.push_back(summarize_case(std::move(of_case)));
    CaseSummary& summary = summaries.back();
    summary.cv_max = parts_->cv_max;
    const record::Dataset<record::Always>& dataset = summary.about().dataset;
    const std::string id = record::common_fields(summary.last).provenance_id.value_or("");
    const record::Provenance& provenance = parts_->provenances[id];
    summary.stand_in_data = stand_in_data(dataset.id, dataset.stand_in, provenance);
    summary.required =
        required_by(parts_->provenances[parts_->last_provenance], summary.about().dtype);
  }
  // A failure is often the first record of its group. It stands below the results all the same.
  std::map<std::string, size_t> last;  // by group
  for (size_t i = 0; i < summaries.size(); ++i) last[summaries[i].group()] = i;
  std::vector<std::pair<size_t, bool>> places;
  std::vector<size_t> order;
  for (size_t i = 0; i < summaries.size(); ++i) {
    const bool failed = summaries[i].failure.has_value();
    places.emplace_back(failed ? last.at(summaries[i].group()) : i, failed);
    order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return places[i]; });
  for (const size_t i : order) sorted.push_back(std::move(summaries[i]));
  return sorted;
}

std::vector<CaseSummary> summarize(record::Records records) {
  Summarizer summarizer;
  for (record::Any& record : records) summarizer.add(std::move(record));
  return summarizer.finish();
}

std::vector<CaseSummary> summarize_cases(record::Records records) {
  std::vector<CaseSummary> cases = summarize(std::move(records));
  std::erase_if(cases, is_stream);
  return cases;
}

json summary_json(const CaseSummary& summary) {
  const auto worst = worst_round(summary.rounds);
  const auto or_null = [](const auto& part) { return part ? record::write(*part) : json(); };
  return {{"name", summary.case_name()},
          {"failure", summary.failure ? record::write(summary.last) : json()},
          {"grade", summary.grade.empty() ? json() : json(summary.grade)},
          {"worst_round", worst ? json(*worst) : json()},
          {"first_difference", or_null(summary.first_difference)},
          {"replay", or_null(summary.replay)},
          {"deterministic", summary.deterministic},
          {"noisy", summary.noisy()},
          {"marks", summary.marks()},
          {"stand_in_data", summary.stand_in_data.empty() ? json() : json(summary.stand_in_data)},
          {"metrics", metrics_json(summary)},
          {"regions", regions_json(summary)}};
}

std::string name_in_fp32(std::string_view case_name) {
  return fmt::format("{}/fp32", case_name.substr(0, case_name.rfind('/')));
}

bool is_shown(const record::Case& of, std::string_view metric) {
  return of.decoder.head != "none" || metric == "rtfx.total" || metric == "rtfx.wall" ||
         metric == "rtfx.encode_decode" || metric.starts_with("batch_ms.") ||
         metric.starts_with("busy.") || metric.starts_with("energy.");
}

const record::Exactness* CaseSummary::last_exactness() const {
  const record::Run* run = last_run();
  return run != nullptr && run->exactness ? &*run->exactness : nullptr;
}

std::vector<double> CaseSummary::values(const std::string& metric) const {
  std::vector<double> list;
  for (const record::Round& round : rounds) {
    if (!is_shown(record::fields(round), metric)) continue;
    const record::Figures& figures = record::metrics(round);
    const auto found = figures.find(metric);
    if (found != figures.end() && found->second) list.push_back(*found->second);
  }
  return list;
}

std::string CaseSummary::group() const {
  std::string group = case_name();
  const size_t begin = about().model.id.size() + about().dataset.id.size() + 2;
  return begin < group.size() ? group.erase(begin, about().decoder.id.size() + 1) : group;
}

CountedRounds CaseSummary::counted_rounds() const {
  CountedRounds counted{.rounds = {}, .of = rounds.size()};
  for (const record::Round& round : rounds) {
    if (!record::is_suspect(round)) counted.rounds.push_back(&round);
  }
  if (counted.rounds.size() == rounds.size() || counted.rounds.size() >= kCleanRounds)
    return counted;
  counted.disturbed = true;
  counted.rounds.clear();
  for (const record::Round& round : rounds) counted.rounds.push_back(&round);
  return counted;
}

std::string CountedRounds::text() const {
  const auto suspect = std::ranges::count_if(
      rounds, [](const record::Round* round) { return record::is_suspect(*round); });
  const size_t left_out = of - rounds.size();
  return fmt::format("{} of {} rounds{}", rounds.size(), of,
                     left_out > 0  ? fmt::format(", {} suspect left out", left_out)
                     : suspect > 0 ? fmt::format(", {} of them suspect", suspect)
                                   : "");
}

bool CaseSummary::varies_too_much(const std::vector<double>& values) const {
  return values.size() > 1 && spread_of(values).cv() > cv_max;
}

bool CaseSummary::noisy() const { return varies_too_much(values("rtfx.total")); }

bool CaseSummary::has_empty_round() const {
  return std::ranges::any_of(rounds, [](const record::Round& round) {
    const auto* run = std::get_if<record::Run>(&round);
    return run != nullptr && run->all_empty == true;
  });
}

const record::WordErrors* CaseSummary::word_errors() const {
  const record::Run* run = last_run();
  if (run == nullptr || !is_shown(*run, "wer")) return nullptr;
  return run->wer.wer || run->wer.insertions > 0 ? &run->wer : nullptr;
}

std::optional<double> CaseSummary::gaps() const {
  double wall = 0, gap = 0;
  for (const record::Round& round : rounds) {
    const auto* run = std::get_if<record::Run>(&round);
    if (run == nullptr || !run->wall_seconds) return std::nullopt;
    wall += *run->wall_seconds;
    gap += *run->wall_seconds - run->total_seconds;
  }
  return wall > 0 ? std::optional(gap / wall) : std::nullopt;
}

std::map<std::string, int64_t> CaseSummary::suspect_reasons() const {
  std::map<std::string, int64_t> counts;
  for (const record::Round& round : rounds) {
    if (const auto* reasons = record::suspect_reasons(round)) {
      for (const std::string& reason : *reasons) ++counts[reason];
    }
  }
  return counts;
}

std::optional<double> CaseSummary::suspect_share() const {
  const auto is_known = [](const auto& round) { return record::suspect_reasons(round) != nullptr; };
  if (rounds.empty() || !std::ranges::all_of(rounds, is_known)) return std::nullopt;
  const auto suspect = std::ranges::count_if(rounds, record::is_suspect);
  return static_cast<double>(suspect) / static_cast<double>(rounds.size());
}

Summaries all_of(const std::vector<CaseSummary>& cases) { return {cases.begin(), cases.end()}; }

std::vector<std::string> CaseSummary::stand_ins() const {
  return stand_in_marks(about().model, stand_in_data);
}

std::string beyond_rounding(const CaseSummary& summary) {
  if (!has_failed(summary.replay)) return "";
  if (!summary.replay->first)
    return fmt::format("{} of {} decisions", summary.replay->beyond, summary.replay->decisions);
  const record::BeyondDecision& d = *summary.replay->first;
  const auto figure = [&](const Nullable<Number>& value) {
    return value ? fmt::format("{:.3g}", static_cast<double>(*value)) : "infinite";
  };
  const std::string what = d.kind == "label" || d.kind == "duration"
                               ? fmt::format("{} {} instead of {}", d.kind, d.chosen, d.best)
                               : d.kind;
  return fmt::format("{} at frame {} ({:.2f} s) of '{}', gap {}, bound {}", what, d.frame,
                     static_cast<double>(d.seconds), d.utterance, figure(d.gap), figure(d.bound));
}

std::string CaseSummary::inexact() const {
  if (failure || required == Grade::different) return "";
  // A failed replay is an error of any decoder, the baseline and approximate ones included.
  if (std::string beyond = beyond_rounding(*this); !beyond.empty())
    return "beyond rounding: " + beyond;
  if (about().decoder.exactness != "exact") return "";
  if (!grade.empty() && grade != "baseline" && grade_of(grade) > required) {
    const record::Exactness* exactness = last_exactness();
    const std::string baseline =
        exactness == nullptr ? "its baseline" : std::string(exactness->baseline);
    return fmt::format("graded {} against {}, and {} is required", grade, baseline,
                       to_string(required));
  }
  const std::string apart = grade_against_isolated(*this);
  if (!apart.empty() && grade_of(apart) > required)
    return fmt::format("graded {} against the isolated pass, and {} is required", apart,
                       to_string(required));
  return "";
}

std::string above_fp32(const CaseSummary& summary, const CaseSummary& in_fp32, double allowed) {
  if (summary.failure || in_fp32.failure) return "";
  const record::WordErrors *now = summary.word_errors(), *base = in_fp32.word_errors();
  if (now == nullptr || base == nullptr || !now->wer || !base->wer) return "";
  const double more = *now->wer - *base->wer;
  if (!exceeds(more, allowed)) return "";
  return fmt::format(
      "{:.2f} points more word errors than in fp32, `verify.wer_above_fp32` allows {:.2f}",
      100 * more, 100 * allowed);
}

std::string CaseSummary::fault() const {
  if (failure) return "";
  if (std::string reason = inexact(); !reason.empty()) return reason;
  if (!deterministic) return "it did not repeat its own hypotheses";
  if (has_empty_round()) return "no result has a token, though the audio has words or sound";
  return "";
}

std::string CaseSummary::grade_text() const {
  if (failure) return "FAILED";
  const bool approximate = about().decoder.exactness == "approximate";
  return grade.empty() || !approximate ? grade : grade + " ~";
}

record::Summary summary_record(const CaseSummary& summary) {
  const auto spread = [&](const char* metric) -> Nullable<record::Spread> {
    const std::vector<double> values = summary.values(metric);
    if (values.empty()) return std::nullopt;
    const Spread s = spread_of(values);
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
  record.result_key = summary.about().result_key;
  record.rounds = static_cast<int64_t>(totals.size());
  record.rtfx_total = spread("rtfx.total");
  record.rtfx_decode = spread("rtfx.decode");
  if (!summary.grade.empty()) record.grade = summary.grade;
  record.deterministic = summary.deterministic;
  record.cv = Number(spread_of(totals).cv());
  record.noisy = summary.noisy();
  return record;
}

}  // namespace rtfx
