#include "harness/run/merge_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/sha256.h"
#include "base/terminal.h"
#include "harness/results/journal.h"
#include "harness/results/metric_table.h"
#include "harness/run/shard.h"
#include "harness/scoring/boosted_words.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

namespace {

using record::Run;
using Parts = std::vector<const Run*>;  // the rounds of one number, from all shards

double sum(const Parts& parts, const auto& value_of) {
  double total = 0;
  for (const Run* part : parts) total += value_of(*part);
  return total;
}

/// Returns a hash of the shards' hashes.
std::string joined_hash(const Parts& parts, const auto& hash_of) {
  std::string text;
  for (const Run* part : parts) text += hash_of(*part) + "\n";
  return sha256(text);
}

/// Returns a metric of a shard; none if it is not known.
Nullable<Number> metric_of(const Run& part, const std::string& metric) {
  const auto found = part.metrics.find(metric);
  return found == part.metrics.end() ? std::nullopt : found->second;
}

/// Returns all audio divided by the longest time; null if a shard lacks the figure.
Nullable<Number> merged_rate(const Parts& parts, const std::string& metric) {
  double audio = 0, longest = 0;
  for (const Run* part : parts) {
    const Nullable<Number> rate = metric_of(*part, metric);
    if (!rate) return std::nullopt;
    audio += part->dataset.audio_seconds;
    longest = std::max(longest, part->dataset.audio_seconds / *rate);
  }
  return audio / longest;
}

/// Returns the largest value of any shard; null if a shard has none.
Nullable<Number> greatest(const Parts& parts, const std::string& metric) {
  Nullable<Number> most;
  for (const Run* part : parts) {
    const Nullable<Number> value = metric_of(*part, metric);
    if (!value) return std::nullopt;
    if (!most || static_cast<double>(*value) > static_cast<double>(*most)) most = value;
  }
  return most;
}

/// Returns the energy for all audio if every shard has its own; else null.
Nullable<Number> merged_energy(const Parts& parts) {
  double joules = 0, audio = 0;
  for (const Run* part : parts) {
    const Nullable<Number> rate = metric_of(*part, "energy.joules_per_hour");
    if (!rate) return std::nullopt;
    joules += *rate * part->dataset.audio_seconds;
    audio += part->dataset.audio_seconds;
  }
  return joules / audio;
}

Nullable<Number> as_number(const std::optional<double>& value) {
  return value ? Nullable<Number>(*value) : std::nullopt;
}

record::WordErrors merged_wer(const Parts& parts) {
  EditCounts edits;
  for (const Run* part : parts) {
    edits += EditCounts{.substitutions = part->wer.substitutions,
                        .insertions = part->wer.insertions,
                        .deletions = part->wer.deletions,
                        .reference_words = part->wer.reference_words.value_or(0),
                        .character_errors = part->wer.character_errors.value_or(0),
                        .reference_characters = part->wer.reference_characters.value_or(0),
                        .unspaced_characters = part->wer.unspaced_characters.value_or(0)};
  }
  record::WordErrors field = parts.front()->wer;
  field.wer = as_number(edits.wer());
  field.substitutions = edits.substitutions;
  field.insertions = edits.insertions;
  field.deletions = edits.deletions;
  field.reference_words = edits.reference_words;
  if (const auto cer = edits.cer()) {
    field.cer = as_number(cer);
    field.character_errors = edits.character_errors;
    field.reference_characters = edits.reference_characters;
    field.unspaced_characters = edits.unspaced_characters;
  }
  return field;
}

/// Null if a shard lacks it.
Nullable<record::OracleErrors> merged_oracle(const Parts& parts) {
  EditCounts edits;
  for (const Run* part : parts) {
    const record::OracleErrors* oracle = known(part->oracle_wer);
    if (oracle == nullptr) return std::nullopt;
    edits += EditCounts{.substitutions = oracle->substitutions.value_or(0),
                        .insertions = oracle->insertions.value_or(0),
                        .deletions = oracle->deletions.value_or(0),
                        .reference_words = oracle->reference_words.value_or(0)};
  }
  record::OracleErrors field = *known(parts.front()->oracle_wer);
  field.wer = as_number(edits.wer());
  field.substitutions = edits.substitutions;
  field.insertions = edits.insertions;
  field.deletions = edits.deletions;
  field.reference_words = edits.reference_words;
  return field;
}

BoostedCounts counts_of(const auto& field) {
  return {.occurrences = field.occurrences.value_or(0),
          .recalled = field.recalled.value_or(0),
          .false_alarms = field.false_alarms.value_or(0)};
}

void set_counts(auto& field, const BoostedCounts& counts) {
  field.occurrences = counts.occurrences;
  field.recalled = counts.recalled;
  field.false_alarms = counts.false_alarms;
  field.recall = as_number(counts.recall());
  field.precision = as_number(counts.precision());
}

/// Null if a shard lacks it.
Nullable<record::Boosted> merged_boosted(const Parts& parts) {
  BoostedCounts counts, phrases;
  bool has_phrases = true;  // false in journals of earlier releases
  for (const Run* part : parts) {
    const record::Boosted* boosted = known(part->boosted);
    if (boosted == nullptr) return std::nullopt;
    counts += counts_of(*boosted);
    has_phrases = has_phrases && boosted->phrases;
    if (has_phrases) phrases += counts_of(*boosted->phrases);
  }
  record::Boosted field = *known(parts.front()->boosted);
  set_counts(field, counts);
  if (has_phrases) {
    set_counts(*field.phrases, phrases);
    field.f_score = as_number(f_score(phrases));
  }
  return field;
}

/// Adds another shard's replay, if both have one.
void add_replay(record::Exactness& merged, const record::Exactness& other) {
  const record::Replay* more = known(other.replay);
  if (known(merged.replay) == nullptr || more == nullptr) return;
  record::Replay& sum = **merged.replay;
  sum.decisions += more->decisions;
  sum.beyond += more->beyond;
  Nullable<Number>& worst = sum.worst_gap_over_bound;  // null means infinite
  const Nullable<Number>& its = more->worst_gap_over_bound;
  if (!its || (worst && static_cast<double>(*its) > static_cast<double>(*worst))) worst = its;
  if (!sum.first) sum.first = more->first;
}

/// Returns the worst grade of any shard, with its first difference; null if a shard has none.
Nullable<record::Exactness> merged_exactness(const Parts& parts) {
  Nullable<record::Exactness> merged = parts.front()->exactness;
  for (const Run* part : parts) {
    const Nullable<record::Exactness>& other = part->exactness;
    if (!other || !merged) return std::nullopt;
    if (part == parts.front()) continue;
    add_replay(*merged, *other);
    if (other->grade == "baseline") continue;
    for (const auto& [grade, count] : other->grades) merged->grades[grade] += count;
    if (grade_of(other->grade) <= grade_of(merged->grade)) continue;
    merged->grade = other->grade;
    merged->first_difference = other->first_difference;
  }
  return merged;
}

/// Returns the worst grade of any shard against its isolated pass, with its first difference.
record::IsolatedComparison merged_isolated(const Parts& parts) {
  record::IsolatedComparison merged = *parts.front()->isolated;
  for (const Run* part : parts) {
    if (part == parts.front()) continue;
    const record::IsolatedComparison& other = *part->isolated;
    for (const auto& [grade, count] : other.grades) merged.grades[grade] += count;
    if (grade_of(other.grade) <= grade_of(merged.grade)) continue;
    merged.grade = other.grade;
    merged.first_difference = other.first_difference;
  }
  return merged;
}

/// Returns the sums over all shards; absent if no shard has any.
Optional<record::WordlessSpeech> merged_wordless(const Parts& parts) {
  Optional<record::WordlessSpeech> merged;
  double seconds = 0;
  for (const Run* part : parts) {
    const Optional<record::WordlessSpeech>& other = part->wordless_speech;
    if (!other) continue;
    if (!merged) merged.emplace();
    merged->utterances += other->utterances;
    merged->parts += other->parts;
    seconds += other->seconds;
  }
  if (merged) merged->seconds = Number(seconds);
  return merged;
}

/// Returns the mean of a metric, in which each shard counts by its seconds. Shards of 0 s need no
/// value. Null if the seconds or the value of another shard are not known, or if all have 0 s.
Nullable<Number> merged_per_second(const Parts& parts, std::string_view key,
                                   const auto& seconds_of) {
  double weighted = 0, all = 0;
  for (const Run* part : parts) {
    const std::optional<double> seconds = seconds_of(*part);
    if (seconds == 0.0) continue;
    const auto found = part->metrics.find(key);
    if (!seconds || found == part->metrics.end() || !found->second) return std::nullopt;
    weighted += *found->second * *seconds;
    all += *seconds;
  }
  return all > 0 ? Nullable<Number>(weighted / all) : std::nullopt;
}

/// Returns the audio of the utterances that have a reference; none in journals that lack it.
std::optional<double> reference_seconds_of(const Run& part) {
  return part.reference_seconds ? std::optional<double>(*part.reference_seconds) : std::nullopt;
}

/// Merges a metric by its rule. `of_slowest` is the value of the slowest shard.
Nullable<Number> merged_metric(const Parts& parts, const std::string& key,
                               const Nullable<Number>& of_slowest, Merge merge) {
  switch (merge) {
    case Merge::rate:
      return merged_rate(parts, key);
    case Merge::slowest:
      return of_slowest;
    case Merge::greatest:
      return greatest(parts, key);
    case Merge::per_second:
      return merged_per_second(parts, key, [](const Run& part) -> std::optional<double> {
        return part.dataset.audio_seconds;
      });
    case Merge::per_reference_second:
      return merged_per_second(parts, key, reference_seconds_of);
    case Merge::energy:
      return merged_energy(parts);
    case Merge::absent:
      break;
  }
  return std::nullopt;
}

/// Merges the metrics that the slowest shard has. A key without a rule is left out.
record::Figures merged_metrics(const Parts& parts, const Run& slowest) {
  record::Figures merged;
  for (const auto& [key, value] : slowest.metrics) {
    const StoredInRun* stored = find_stored_in_run(key);
    if (stored == nullptr || stored->merge == Merge::absent) continue;
    merged[key] = merged_metric(parts, key, value, stored->merge);
  }
  return merged;
}

std::vector<std::string> merged_suspect(const Parts& parts) {
  std::vector<std::string> reasons;
  for (const Run* part : parts) {
    if (!part->suspect) continue;
    for (const std::string& reason : *part->suspect) {
      if (std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
    }
  }
  return reasons;
}

Number plus(const Number& a, const Number& b) {
  if (a.is_integer() && b.is_integer()) return a.integer() + b.integer();
  return static_cast<double>(a) + static_cast<double>(b);
}

record::ShardTimes times_of(const Parts& parts, double longest) {
  record::ShardTimes times;
  for (const Run* part : parts) {
    times.total_seconds.push_back(part->total_seconds);
    times.decode_seconds.push_back(part->regions.at("decode").host_seconds);
  }
  const double mean = sum(parts, [](const Run& part) -> double { return part.total_seconds; }) /
                      static_cast<double>(parts.size());
  times.skew = mean > 0 ? longest / mean : 1;
  return times;
}

Run merged_round(const Parts& parts) {
  const Run* slowest = *std::ranges::max_element(
      parts, {}, [](const Run* part) -> double { return part->total_seconds; });
  Run merged = *slowest;
  merged.batches.reset();
  merged.device_memory.reset();
  merged.energy.reset();
  merged.first_pass.reset();
  merged.lengths.reset();
  if (std::ranges::any_of(parts, [](const Run* part) { return part->all_empty != true; }))
    merged.all_empty.reset();
  merged.isolated.reset();
  if (std::ranges::all_of(parts, [](const Run* part) { return part->isolated.has_value(); }))
    merged.isolated = merged_isolated(parts);
  merged.profile = {};
  merged.result_key =
      joined_hash(parts, [](const Run& part) { return part.result_key; }).substr(0, 16);
  merged.hypotheses_sha256 =
      joined_hash(parts, [](const Run& part) { return part.hypotheses_sha256; });
  merged.tokens_sha256.reset();
  if (std::ranges::all_of(parts, [](const Run* part) { return part->tokens_sha256.has_value(); }))
    merged.tokens_sha256 = joined_hash(parts, [](const Run& part) { return *part.tokens_sha256; });
  merged.dataset.audio_seconds =
      sum(parts, [](const Run& part) -> double { return part.dataset.audio_seconds; });
  merged.dataset.utterances = 0;
  for (const Run* part : parts) merged.dataset.utterances += part->dataset.utterances;
  if (merged.reference_seconds) {
    merged.reference_seconds =
        Number(sum(parts, [](const Run& part) { return reference_seconds_of(part).value_or(0); }));
  }
  merged.metrics = merged_metrics(parts, *slowest);
  if (merged.cpu_seconds) {
    merged.cpu_seconds =
        Number(sum(parts, [](const Run& part) -> double { return part.cpu_seconds.value_or(0); }));
  }
  merged.wer = merged_wer(parts);
  if (merged.oracle_wer) merged.oracle_wer = merged_oracle(parts);
  if (merged.boosted) merged.boosted = merged_boosted(parts);
  merged.wordless_speech = merged_wordless(parts);
  merged.exactness = merged_exactness(parts);
  merged.suspect = merged_suspect(parts);
  merged.deterministic = std::ranges::all_of(
      parts, [](const Run* part) { return part->deterministic.value_or(true); });
  merged.counters.emplace();
  for (const Run* part : parts) {
    if (!part->counters) continue;
    for (const auto& [name, count] : *part->counters) {
      Number& total = merged.counters->try_emplace(name, 0).first->second;
      total = plus(total, count);
    }
  }
  merged.shards = times_of(parts, slowest->total_seconds);
  return merged;
}

record::Provenance merged_provenance(const std::vector<ResultSet>& shards) {
  record::Provenance merged = shards.front().provenance;
  record::ShardDevices devices;
  devices.count = static_cast<int64_t>(shards.size());
  devices.devices.emplace();
  for (const ResultSet& shard : shards)
    devices.devices->push_back(shard.provenance.device.value_or(record::Device()));
  merged.shards = std::move(devices);
  if (!merged.datasets) return merged;
  for (size_t d = 0; d < merged.datasets->size(); ++d) {
    record::DatasetFile& whole = (*merged.datasets)[d];
    for (const ResultSet& shard : std::span(shards).subspan(1)) {
      if (!shard.provenance.datasets || shard.provenance.datasets->size() <= d) continue;
      const record::DatasetFile& part = (*shard.provenance.datasets)[d];
      if (whole.utterances) *whole.utterances += part.utterances.value_or(0);
      if (whole.audio_seconds)
        *whole.audio_seconds = plus(*whole.audio_seconds, part.audio_seconds.value_or(0));
    }
  }
  return merged;
}

/// Prints that a shard lacks `what`, so that the merged journal leaves it out.
void print_missing(size_t shard, size_t count, const std::string& what) {
  const Shard lacking{.index = static_cast<int64_t>(shard), .count = static_cast<int64_t>(count)};
  print_message("rtfx: notice: shard {} lacks {}; the merged journal leaves it out\n",
                lacking.label(), printable(what));
}

/// Returns each shard's part of the case. Empty if a shard has none, which a notice says.
std::vector<const CaseResult*> parts_of(const std::vector<ResultSet>& shards,
                                        const std::string& name) {
  std::vector<const CaseResult*> parts;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (const CaseResult* part = shards[i].find(name))
      parts.push_back(part);
    else
      print_missing(i, shards.size(), fmt::format("the case {}", name));
  }
  if (parts.size() < shards.size()) parts.clear();
  return parts;
}

/// Returns the record of the case's failure; none if it has not failed in any shard.
std::optional<record::Failure> merged_failure(const std::vector<const CaseResult*>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]->summary.failure) continue;
    record::Failure failure = std::get<record::Failure>(parts[i]->summary.last);
    failure.message = fmt::format("shard {}: {}", i, failure.message);
    return failure;
  }
  return std::nullopt;
}

/// Returns the shard's round of this number; null if it has none.
const Run* find_round(const CaseResult& part, int64_t number) {
  for (const record::Round& round : part.rounds()) {
    const auto* run = std::get_if<Run>(&round);
    if (run != nullptr && run->round == number) return run;
  }
  return nullptr;
}

/// Adds the case with the rounds that all shards have. Notices name the other rounds.
void add_case(record::Records& records, const std::vector<const CaseResult*>& parts) {
  if (auto failure = merged_failure(parts)) return records.push_back(std::move(*failure));
  std::set<int64_t> numbers;
  for (const CaseResult* part : parts)
    for (const record::Round& round : part->rounds()) numbers.insert(record::number_of(round));
  for (const int64_t number : numbers) {
    Parts round;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (const Run* run = find_round(*parts[i], number))
        round.push_back(run);
      else
        print_missing(i, parts.size(),
                      fmt::format("round {} of the case {}", number, parts[i]->name()));
    }
    if (round.size() == parts.size()) records.push_back(merged_round(round));
  }
}

/// Returns the hypotheses of a shard's case. The shard writes them before it records the case's
/// first round, also for a decoder without a head.
std::string hypotheses_of(const ResultSet& shard, const std::string& name) {
  const std::string key = shard.find(name)->about().result_key;
  const std::filesystem::path file =
      plain_or_gzip(shard.journal.parent_path() / "hypotheses" / (key + ".jsonl"));
  if (!std::filesystem::exists(file)) {
    throw UserError(file.string(),
                    "is missing, and the whole run needs the hypotheses of each shard",
                    "copy the file back, or measure all shards again with --force");
  }
  return read_text(file);
}

}  // namespace

record::Records merge_shards(const std::vector<ResultSet>& shards) {
  record::Records records = {merged_provenance(shards)};
  std::set<std::string> names;
  for (const ResultSet& shard : shards) {
    for (const CaseResult& result : shard.cases) {
      const std::string name = result.name();
      if (!names.insert(name).second) continue;
      const auto parts = parts_of(shards, name);
      if (!parts.empty()) add_case(records, parts);
    }
  }
  for (record::Any& record : records)
    record::common_fields(record).provenance_id =
        record::common_fields(records.front()).provenance_id;
  return records;
}

record::Records write_merged(const std::filesystem::path& output, int64_t count) {
  std::vector<ResultSet> shards;
  for (int64_t i = 0; i < count; ++i)
    shards.push_back(read_results(Shard{.index = i, .count = count}.folder(output)));
  record::Records records = merge_shards(shards);
  std::string text;
  for (const record::Any& record : records) {
    text += record::to_line(record);
    const auto* run = std::get_if<Run>(&record);
    if (run == nullptr || run->round != 0) continue;
    std::string hypotheses;
    for (const ResultSet& shard : shards) hypotheses += hypotheses_of(shard, run->case_name);
    write_file(output / "hypotheses" / (run->result_key + ".jsonl"), hypotheses);
  }
  write_file(output / "journal.jsonl", text);
  return records;
}

}  // namespace rtfx
