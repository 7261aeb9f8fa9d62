#include "harness/run/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "harness/results/journal.h"
#include "harness/scoring/boosted_words.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

namespace {

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// 4 of "4(x2),3": tasks of the first node, which has the most.
int64_t first_number(const std::string& text) {
  return parse_integer(text.substr(0, text.find_first_of("(,"))).value_or(1);
}

int64_t read_integer(const Environment& environment, const std::string& name) {
  const auto text = environment(name);
  const auto value = text ? parse_integer(*text) : std::nullopt;
  if (!value) {
    throw UserError("--shard auto", fmt::format("{} is '{}'", name, text.value_or("")),
                    "start it with torchrun or srun, or give --shard i/n");
  }
  return *value;
}

void read_rendezvous(Shard& shard, const Environment& environment) {
  if (const auto host = environment("MASTER_ADDR")) shard.host = *host;
  if (environment("MASTER_PORT")) shard.port = read_integer(environment, "MASTER_PORT");
  shard.launcher_listens = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
}

}  // namespace

std::string Shard::label() const { return fmt::format("{}-of-{}", index, count); }

std::filesystem::path Shard::folder(const std::filesystem::path& output) const {
  return whole() ? output : output / "shards" / label();
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Shard parse_shard(const std::string& text, const Environment& environment) {
  Shard shard;
  read_rendezvous(shard, environment);
  if (text != "auto") {
    const size_t slash = text.find('/');
    const auto index = parse_integer(std::string_view(text).substr(0, slash));
    const auto count = slash == std::string::npos
                           ? std::nullopt
                           : parse_integer(std::string_view(text).substr(slash + 1));
    if (!index || !count || *index >= *count)
      throw UserError("--shard " + text, "no shard", "i/n with 0 <= i < n, or auto");
    shard.index = shard.local_index = *index;
    shard.count = shard.local_count = *count;
    shard.launcher_listens = false;
    return shard;
  }
  if (environment("RANK")) {
    shard.index = read_integer(environment, "RANK");
    shard.count = read_integer(environment, "WORLD_SIZE");
    shard.local_index = read_integer(environment, "LOCAL_RANK");
    if (environment("LOCAL_WORLD_SIZE"))
      shard.local_count = read_integer(environment, "LOCAL_WORLD_SIZE");
  } else if (environment("SLURM_PROCID")) {
    shard.index = read_integer(environment, "SLURM_PROCID");
    shard.count = read_integer(environment, "SLURM_NTASKS");
    shard.local_index = read_integer(environment, "SLURM_LOCALID");
    shard.local_count = first_number(environment("SLURM_TASKS_PER_NODE").value_or("1"));
    const bool nodes = environment("SLURM_NNODES").value_or("1") != "1";
    if (nodes && !environment("MASTER_ADDR")) {
      throw UserError(
          "--shard auto", "several nodes, and MASTER_ADDR is not set",
          "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1)");
    }
  } else {
    throw UserError("--shard auto", "neither torchrun's RANK nor Slurm's SLURM_PROCID is set",
                    "start it with torchrun or srun, or give --shard i/n");
  }
  shard.local_count = std::max<int64_t>(1, shard.local_count);
  if (shard.index >= shard.count) {
    throw UserError("--shard auto", fmt::format("shard {} of {}", shard.index, shard.count),
                    "start it with torchrun or srun, or give --shard i/n");
  }
  return shard;
}

std::vector<size_t> deal(const std::vector<double>& seconds, int64_t index, int64_t count) {
  std::vector<size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  std::vector<size_t> mine;
  const auto n = static_cast<size_t>(count);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t place = i % n;
    const size_t to = (i / n) % 2 == 0 ? place : n - 1 - place;
    if (to == static_cast<size_t>(index)) mine.push_back(order[i]);
  }
  std::sort(mine.begin(), mine.end());
  return mine;
}

namespace {

using nlohmann::json;
using Parts = std::vector<const json*>;  // what each shard has of one thing

double sum(const Parts& parts, const json::json_pointer& where) {
  double total = 0;
  for (const json* part : parts) total += part->at(where).get<double>();
  return total;
}

json values(const Parts& parts, const json::json_pointer& where) {
  json list = json::array();
  for (const json* part : parts) list.push_back(part->at(where));
  return list;
}

/// Joins the shards' hashes; null where one lacks it.
json joined_hash(const Parts& parts, const char* key) {
  std::string text;
  for (const json* part : parts) {
    if (!part->contains(key)) return nullptr;
    text += part->at(key).get<std::string>() + "\n";
  }
  return sha256(text);
}

/// All audio / the longest time; null where a shard has no such figure.
json merged_rate(const Parts& parts, const std::string& metric) {
  double audio = 0, longest = 0;
  for (const json* part : parts) {
    const json& rate = part->at("metrics").at(metric);
    if (!rate.is_number()) return nullptr;
    const double seconds = part->at("dataset").at("audio_seconds");
    audio += seconds;
    longest = std::max(longest, seconds / rate.get<double>());
  }
  return audio / longest;
}

/// The most that any shard has; null where one has none.
json greatest(const Parts& parts, const std::string& metric) {
  json most;
  for (const json* part : parts) {
    const json value = part->at("metrics").value(metric, json());
    if (!value.is_number()) return nullptr;
    if (most.is_null() || value > most) most = value;
  }
  return most;
}

/// The energy for all audio, where every shard has its own; else null.
json merged_energy(const Parts& parts) {
  double joules = 0, audio = 0;
  for (const json* part : parts) {
    const json rate = part->at("metrics").value("energy.joules_per_hour", json());
    if (!rate.is_number()) return nullptr;
    const double seconds = part->at("dataset").at("audio_seconds");
    joules += rate.get<double>() * seconds;
    audio += seconds;
  }
  return joules / audio;
}

/// `key`: "wer" or "oracle_wer"; null where a shard lacks it.
json merged_wer(const Parts& parts, const char* key) {
  EditCounts edits;
  for (const json* part : parts) {
    if (!part->contains(key)) return nullptr;
    const json& wer = part->at(key);
    edits += EditCounts{.substitutions = wer.at("substitutions"),
                        .insertions = wer.at("insertions"),
                        .deletions = wer.at("deletions"),
                        .reference_words = wer.at("reference_words"),
                        .character_errors = wer.value("character_errors", int64_t{0}),
                        .reference_characters = wer.value("reference_characters", int64_t{0})};
  }
  json field = parts.front()->at(key);
  const auto wer = edits.wer();
  field.update({{"wer", wer ? json(*wer) : json()},
                {"substitutions", edits.substitutions},
                {"insertions", edits.insertions},
                {"deletions", edits.deletions},
                {"reference_words", edits.reference_words}});
  if (const auto cer = edits.cer()) {
    field.update({{"cer", *cer},
                  {"character_errors", edits.character_errors},
                  {"reference_characters", edits.reference_characters}});
  }
  return field;
}

/// Null where a shard lacks it.
json merged_boosted(const Parts& parts) {
  const auto counts_of = [](const json& field) {
    return BoostedCounts{.occurrences = field.at("occurrences"),
                         .recalled = field.at("recalled"),
                         .false_alarms = field.at("false_alarms")};
  };
  BoostedCounts counts, phrases;
  bool has_phrases = true;  // but in journals of earlier releases
  for (const json* part : parts) {
    if (!part->contains("boosted")) return nullptr;
    const json& boosted = part->at("boosted");
    counts += counts_of(boosted);
    has_phrases = has_phrases && boosted.contains("phrases");
    if (has_phrases) phrases += counts_of(boosted.at("phrases"));
  }
  json field = parts.front()->at("boosted");
  field.update(to_json(counts));
  if (has_phrases) {
    field["phrases"].update(to_json(phrases));
    const auto score = f_score(phrases);
    field["f_score"] = score ? json(*score) : json();
  }
  return field;
}

/// Adds another shard's replay.
void add_replay(json& merged, const json& other) {
  if (!merged.is_object() || !merged.value("replay", json()).is_object()) return;
  if (!other.is_object() || !other.value("replay", json()).is_object()) return;
  json& sum = merged["replay"];
  const json& more = other["replay"];
  for (const char* count : {"decisions", "beyond"})
    sum[count] = sum[count].get<int64_t>() + more[count].get<int64_t>();
  json& worst = sum["worst_gap_over_bound"];  // null: infinite
  const json& its = more["worst_gap_over_bound"];
  if (its.is_null() || (worst.is_number() && its.get<double>() > worst.get<double>())) worst = its;
  if (sum["first"].is_null()) sum["first"] = more["first"];
}

/// The worst grade of any shard, with its first difference.
json merged_exactness(const Parts& parts) {
  json merged = parts.front()->at("exactness");
  for (const json* part : parts) {
    const json& other = part->at("exactness");
    if (part != parts.front()) add_replay(merged, other);
    if (!other.is_object()) return nullptr;
    if (part == parts.front() || other.at("grade") == "baseline") continue;
    for (const auto& [grade, count] : other.at("grades").items())
      merged["grades"][grade] = merged["grades"].value(grade, int64_t{0}) + count.get<int64_t>();
    if (grade_of(other.at("grade")) <= grade_of(merged.at("grade"))) continue;
    merged["grade"] = other.at("grade");
    merged["first_difference"] = other.at("first_difference");
  }
  return merged;
}

/// The worst grade of any shard against its isolated pass, with its first difference.
json merged_isolated(const Parts& parts) {
  json merged = parts.front()->at("isolated");
  for (const json* part : parts) {
    if (part == parts.front()) continue;
    const json& other = part->at("isolated");
    for (const auto& [grade, count] : other.at("grades").items())
      merged["grades"][grade] = merged["grades"].value(grade, int64_t{0}) + count.get<int64_t>();
    if (grade_of(other.at("grade")) <= grade_of(merged.at("grade"))) continue;
    merged["grade"] = other.at("grade");
    merged["first_difference"] = other.at("first_difference");
  }
  return merged;
}

/// The mean of a metric per second of audio; null where a shard has none.
json merged_per_second(const Parts& parts, const std::string& key) {
  double sum = 0, audio = 0;
  for (const json* part : parts) {
    const json value = part->at("metrics").value(key, json());
    if (!value.is_number()) return nullptr;
    const double seconds = part->at("dataset").at("audio_seconds");
    sum += value.get<double>() * seconds;
    audio += seconds;
  }
  return audio > 0 ? json(sum / audio) : json();
}

json merged_suspect(const Parts& parts) {
  json reasons = json::array();
  for (const json* part : parts) {
    for (const json& reason : part->value("suspect", json::array())) {
      if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
        reasons.push_back(reason);
    }
  }
  return reasons;
}

json merged_round(const Parts& parts) {
  const auto seconds = [](const json* part) { return part->at("total_seconds").get<double>(); };
  const json* slowest =
      *std::max_element(parts.begin(), parts.end(),
                        [&](const json* a, const json* b) { return seconds(a) < seconds(b); });
  json merged = *slowest;
  for (const char* key :
       {"batches", "device_memory", "energy", "profile", "first_pass", "lengths", "isolated"})
    merged.erase(key);
  for (const char* key : {"rtfx.first_pass", "batch_ms.first"}) merged["metrics"].erase(key);
  if (std::ranges::all_of(parts, [](const json* part) { return part->contains("isolated"); }))
    merged["isolated"] = merged_isolated(parts);
  merged["result_key"] = joined_hash(parts, "result_key").get<std::string>().substr(0, 16);
  for (const char* key : {"hypotheses_sha256", "tokens_sha256"})
    merged[key] = joined_hash(parts, key);
  merged["dataset"]["audio_seconds"] = sum(parts, "/dataset/audio_seconds"_json_pointer);
  merged["dataset"]["utterances"] =
      static_cast<int64_t>(sum(parts, "/dataset/utterances"_json_pointer));
  for (auto& [key, value] : merged["metrics"].items()) {
    if (key.starts_with("rtfx.")) value = merged_rate(parts, key);
    if (key.starts_with("memory.") || key.starts_with("batch_ms.")) value = greatest(parts, key);
    if (key.starts_with("energy.")) value = merged_energy(parts);
    if (key.starts_with("tokens.")) value = merged_per_second(parts, key);
  }
  if (merged.contains("cpu_seconds"))
    merged["cpu_seconds"] = sum(parts, "/cpu_seconds"_json_pointer);
  merged["wer"] = merged_wer(parts, "wer");
  if (merged.contains("oracle_wer")) merged["oracle_wer"] = merged_wer(parts, "oracle_wer");
  if (merged.contains("boosted")) merged["boosted"] = merged_boosted(parts);
  merged["exactness"] = merged_exactness(parts);
  merged["suspect"] = merged_suspect(parts);
  merged["deterministic"] = std::all_of(parts.begin(), parts.end(), [](const json* part) {
    return part->value("deterministic", true);
  });
  merged["counters"] = json::object();
  for (const json* part : parts) {
    for (const auto& [name, count] : part->at("counters").items())
      merged["counters"][name] = merged["counters"].value(name, int64_t{0}) + count.get<int64_t>();
  }
  const double mean = sum(parts, "/total_seconds"_json_pointer) / static_cast<double>(parts.size());
  merged["shards"] = {
      {"total_seconds", values(parts, "/total_seconds"_json_pointer)},
      {"decode_seconds", values(parts, "/regions/decode/host_seconds"_json_pointer)},
      {"skew", mean > 0 ? json(seconds(slowest) / mean) : json()}};
  return merged;
}

json merged_provenance(const std::vector<ResultSet>& shards) {
  json merged = shards.front().provenance;
  json devices = json::array();
  for (const ResultSet& shard : shards) devices.push_back(shard.provenance.at("device"));
  merged["shards"] = {{"count", shards.size()}, {"devices", devices}};
  for (size_t d = 0; d < merged.at("datasets").size(); ++d) {
    json& dataset = merged["datasets"][d];
    for (const char* key : {"utterances", "audio_seconds"}) {
      json total = 0;
      for (const ResultSet& shard : shards) {
        const json& part = shard.provenance.at("datasets").at(d).at(key);
        total = part.is_number_integer() ? json(total.get<int64_t>() + part.get<int64_t>())
                                         : json(total.get<double>() + part.get<double>());
      }
      dataset[key] = total;
    }
  }
  return merged;
}

/// Each shard's part of the case; empty where one has none.
std::vector<const CaseResult*> parts_of(const std::vector<ResultSet>& shards,
                                        const std::string& name) {
  std::vector<const CaseResult*> parts;
  for (const ResultSet& shard : shards) {
    const CaseResult* part = shard.find(name);
    if (part == nullptr) return {};
    parts.push_back(part);
  }
  return parts;
}

/// The record of its failure; null when it has not failed in any shard.
json merged_failure(const std::vector<const CaseResult*>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]->summary.failure) continue;
    json failure = parts[i]->summary.last;
    failure["message"] = fmt::format("shard {}: {}", i, failure.value("message", ""));
    return failure;
  }
  return nullptr;
}

void add_case(std::vector<json>& records, const std::vector<const CaseResult*>& parts) {
  if (json failure = merged_failure(parts); !failure.is_null())
    return records.push_back(std::move(failure));
  for (const json& first : parts.front()->rounds) {
    Parts round;
    for (const CaseResult* part : parts) {
      for (const json& record : part->rounds) {
        if (record.at("round") == first.at("round")) round.push_back(&record);
      }
    }
    if (round.size() == parts.size()) records.push_back(merged_round(round));
  }
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<json> merge_shards(const std::vector<ResultSet>& shards) {
  std::vector<json> records = {merged_provenance(shards)};
  for (const CaseResult& result : shards.front().cases) {
    const auto parts = parts_of(shards, result.name());
    if (!parts.empty()) add_case(records, parts);
  }
  for (json& record : records) record["provenance_id"] = records.front().at("provenance_id");
  return records;
}

std::vector<json> write_merged(const std::filesystem::path& output, int64_t count) {
  std::vector<ResultSet> shards;
  for (int64_t i = 0; i < count; ++i)
    shards.push_back(read_results(Shard{.index = i, .count = count}.folder(output)));
  const std::vector<json> records = merge_shards(shards);
  std::string text;
  for (const json& record : records) {
    text += to_line(record);
    if (record.value("kind", "") != "run" || record.at("round") != 0) continue;
    std::string hypotheses;
    for (const ResultSet& shard : shards) {
      const json& last = shard.find(record.at("case"))->summary.last;
      hypotheses += contents(shard.journal.parent_path() / "hypotheses" /
                             (last.at("result_key").get<std::string>() + ".jsonl"));
    }
    write_file(output / "hypotheses" / (record.at("result_key").get<std::string>() + ".jsonl"),
               hypotheses);
  }
  write_file(output / "journal.jsonl", text);
  return records;
}

}  // namespace rtfx
