#include "harness/run/record.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/json_file.h"
#include "harness/results/journal.h"
#include "harness/results/statistics.h"
#include "harness/run/provenance.h"
#include "speech/transcript/hypothesis_json.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// a / b, null where it is no number.
json ratio(double a, double b) {
  const double value = a / b;
  return std::isfinite(value) ? json(value) : json();
}

constexpr double kMebibyte = 1 << 20;

/// Regions that share their time with others have no RTFx of their own.
json metrics(const RoundResult& result, double audio_seconds, bool overlapped) {
  const RegionTimes& times = result.times;
  const double encode_decode =
      times.seconds(Region::encoder) + times.seconds(Region::decode) + times.seconds(Region::d2h);
  std::vector<double> milliseconds;
  for (const BatchTime& batch : result.batches) milliseconds.push_back(1e3 * batch.latency_seconds);
  const auto of_batch = [&](double share) -> json {
    const auto value = percentile(milliseconds, share);
    return value ? json(*value) : json();
  };
  const auto alone = [&](double a, double b) { return overlapped ? json() : ratio(a, b); };
  return {{"rtfx.total", ratio(audio_seconds, result.seconds)},
          {"rtfx.encode_decode", alone(audio_seconds, encode_decode)},
          {"rtfx.decode", alone(audio_seconds, times.seconds(Region::decode))},
          {"share.decode", alone(times.seconds(Region::decode), result.seconds)},
          {"batch_ms.p50", of_batch(0.5)},
          {"batch_ms.p95", of_batch(0.95)},
          {"batch_ms.p99", of_batch(0.99)}};
}

/// Seconds of each region. The region "confidence" is left out where it took no time.
json regions_field(const RegionTimes& times, bool with_device) {
  json field;
  for (size_t i = 0; i < kRegions; ++i) {
    if (static_cast<Region>(i) == Region::confidence && times.host[i] == 0) continue;
    field[kRegionNames[i]] = {{"host_seconds", times.host[i]},
                              {"device_seconds", with_device ? json(times.device[i]) : json()}};
  }
  return field;
}

/// Times of each batch, rounded to 1 us: a journal of many small batches stays readable.
json batches_field(const std::vector<BatchTime>& batches, bool overlapped) {
  const auto column = [&](double BatchTime::*member) {
    json values = json::array();
    for (const BatchTime& batch : batches) values.push_back(std::round(batch.*member * 1e6) / 1e6);
    return values;
  };
  json field = {{"audio_seconds", column(&BatchTime::audio_seconds)},
                {"total_seconds", column(&BatchTime::total_seconds)},
                {"decode_seconds", column(&BatchTime::decode_seconds)}};
  if (overlapped) field["latency_seconds"] = column(&BatchTime::latency_seconds);
  return field;
}

/// Adds how busy the stages of an overlapped pass were: each has a thread and, on a GPU, a stream,
/// and is as busy as the busier of the two.
void add_stages(json& record, const RoundResult& result, const Throughput& throughput) {
  const auto sum = [](const std::array<double, kRegions>& times, std::initializer_list<Region> of) {
    double seconds = 0;
    for (const Region region : of) seconds += times[static_cast<size_t>(region)];
    return seconds;
  };
  const auto busy = [&](std::initializer_list<Region> of) {
    return std::max(sum(result.times.host, of), sum(result.times.device, of));
  };
  std::vector<std::pair<std::string, double>> stages = {
      {"copy", busy({Region::pad, Region::h2d})},
      {"encoder", busy({Region::features, Region::encoder})},
      {"decode", busy({Region::decode})},
      {"texts", busy({Region::d2h, Region::detokenize, Region::confidence})}};
  if (throughput.audio == "files") stages.emplace_back("load", result.load_seconds);
  for (const auto& [name, seconds] : stages)
    record["metrics"]["busy." + name] = ratio(seconds, result.seconds);
  record["pipeline"] = {{"in_flight", throughput.in_flight}, {"audio", throughput.audio}};
  record["bound_by"] =
      std::ranges::max_element(stages, {}, [](auto& s) { return s.second; })->first;
}

json difference_field(const std::optional<FirstDifference>& first) {
  if (!first) return nullptr;
  return {{"utterance", first->utterance},
          {"frame", first->frame},
          {"seconds", first->seconds},
          {"baseline_words", first->baseline_words},
          {"words", first->words}};
}

/// null where it is no number.
json number(double value) { return std::isfinite(value) ? json(value) : json(); }

/// Null where nothing was replayed.
json replay_field(const std::optional<ReplayAudit>& audit, double frame_seconds) {
  if (!audit) return nullptr;
  json first;
  if (const auto& d = audit->first) {
    first = {{"utterance", audit->utterance},
             {"kind", d->kind},
             {"frame", d->frame},
             {"seconds", static_cast<double>(d->frame) * frame_seconds},
             {"chosen", d->chosen},
             {"best", d->best},
             {"gap", number(d->gap)},
             {"bound", number(d->bound)}};
  }
  return {{"decisions", audit->decisions},
          {"beyond", audit->beyond},
          {"worst_gap_over_bound", number(audit->worst)},
          {"first", first}};
}

/// Adds why a decoder that could be replayed was not.
json with_left_out(json field, const Arm& arm) {
  const std::string why = ReplayCheck::left_out(*arm.decoder);
  if (!why.empty()) field["replay_left_out"] = why;
  return field;
}

json exactness_field(const Arm& arm, const RoundResult& result, const EditCounts* reference_edits,
                     const EditCounts& edits, double frame_seconds) {
  const json replay = replay_field(result.replay, frame_seconds);
  if (arm.plan.compared_to == arm.spec->id) {
    return with_left_out({{"baseline", arm.spec->id},
                          {"grade", "baseline"},
                          {"grades", json::object()},
                          {"first_difference", nullptr},
                          {"replay", replay}},
                         arm);
  }
  if (!result.audited) return nullptr;
  Grade worst = result.audit.worst;
  const bool same_wer = reference_edits != nullptr && edits.reference_words > 0 &&
                        reference_edits->errors() == edits.errors() &&
                        (!result.replay || result.replay->beyond == 0);
  if (worst == Grade::different && same_wer) worst = Grade::wer;
  json grades;
  for (size_t i = 0; i < grade_names().size(); ++i) {
    if (static_cast<Grade>(i) != Grade::wer) grades[grade_names()[i]] = result.audit.counts[i];
  }
  return with_left_out({{"baseline", arm.plan.compared_to},
                        {"grade", to_string(worst)},
                        {"grades", grades},
                        {"first_difference", difference_field(result.audit.first)},
                        {"replay", replay}},
                       arm);
}

/// Word errors if every utterance had the best text of its n-best list; null where there is no
/// list.
json oracle_field(const Workspace& workspace, const CaseGroup& group, const RoundResult& result) {
  const Normalizer& normalizer = workspace.normalizer();
  const Tokenizer& tokenizer = *workspace.checkpoints()[group.model].tokenizer;
  const auto& references = workspace.datasets()[group.dataset].references;
  EditCounts total;
  size_t entries = 0;
  for (size_t i = 0; i < references.size(); ++i) {
    const std::vector<Hypothesis>& list = result.hypotheses[i].nbest;
    entries = std::max(entries, list.size());
    if (!references[i] || list.empty()) continue;
    std::optional<EditCounts> best;
    for (const Hypothesis& entry : list) {
      const EditCounts edits =
          count_edits(*references[i], normalizer.words(tokenizer.text(entry.tokens)));
      if (!best || edits.errors() < best->errors()) best = edits;
    }
    total += *best;
  }
  if (entries == 0) return nullptr;
  json field = wer_field(total, normalizer);
  field["entries"] = entries;
  return field;
}

/// Null for a decoder that boosts no words.
json boosted_field(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                   const RoundResult& result) {
  if (arm.boosted.empty() && arm.biases.empty()) return nullptr;
  const auto& references = workspace.datasets()[group.dataset].references;
  BoostedCounts total, phrases;
  size_t most = 0;
  for (size_t i = 0; i < references.size(); ++i) {
    const BoostedWords& boosted = arm.biases.empty() ? arm.boosted : arm.biases.boosted[i];
    most = std::max(most, boosted.phrases.size());
    if (!references[i]) continue;
    total += count_boosted(*references[i], result.words[i], boosted);
    phrases += count_phrases(*references[i], result.words[i], boosted);
  }
  json field = to_json(total);
  field["phrases"] = to_json(phrases);
  field["phrases"]["count"] = most;
  const auto score = f_score(phrases);
  field["f_score"] = score ? json(*score) : json();
  field["words"] = arm.boosted.words.size();
  field["left_out"] = arm.boosted.left_out;
  return field;
}

/// Whether no hypothesis has a token though there is something to hear: a reference with words, or
/// sound of more than -40 dB.
bool is_empty(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
              const RoundResult& result) {
  const auto has_tokens = [](const Hypothesis& h) { return !h.tokens.empty(); };
  if (arm.description.head == Head::none || std::ranges::any_of(result.hypotheses, has_tokens))
    return false;
  const LoadedDataset& dataset = workspace.datasets()[group.dataset];
  const auto has_words = [](const auto& words) { return words && !words->empty(); };
  const auto sounds = [](const std::vector<float>& samples) {
    double power = 0;
    for (const float x : samples) power += double{x} * x;
    return power > 1e-4 * static_cast<double>(samples.size());
  };
  const bool has_references =
      std::ranges::any_of(dataset.references, [](const auto& words) { return words.has_value(); });
  return has_references ? std::ranges::any_of(dataset.references, has_words)
                        : std::ranges::any_of(dataset.audio, sounds);
}

std::string head_name(Head head) {
  return head == Head::ctc ? "ctc" : head == Head::transducer ? "transducer" : "none";
}

}  // namespace

json wer_field(const EditCounts& edits, const Normalizer& normalizer) {
  const auto wer = edits.wer();
  return {{"normalizer", normalizer.name},           {"version", normalizer.version},
          {"wer", wer ? json(*wer) : json()},        {"substitutions", edits.substitutions},
          {"insertions", edits.insertions},          {"deletions", edits.deletions},
          {"reference_words", edits.reference_words}};
}

json case_fields(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                 at::Device device) {
  const Config& config = workspace.config();
  const LoadedDataset& dataset = workspace.datasets()[group.dataset];
  const BatchRule& batch = group.rule;
  const bool exact = arm.description.exactness == Description::Exactness::exact;
  json fields = {
      {"schema", 1},
      {"case", arm.plan.case_name},
      {"result_key", arm.result_key},
      {"model",
       {{"id", config.models[group.model].id},
        {"kind", workspace.checkpoints()[group.model].config.kind()},
        {"weights", workspace.checkpoints()[group.model].weights_origin()}}},
      {"dataset",
       {{"id", dataset.dataset.id},
        {"utterances", dataset.dataset.utterances.size()},
        {"audio_seconds", dataset.audio_seconds},
        {"stand_in", dataset.dataset.stand_in.empty() ? json() : json(dataset.dataset.stand_in)}}},
      {"decoder",
       {{"id", arm.spec->id},
        {"name", arm.spec->name},
        {"options", arm.decoder->options()},
        {"head", head_name(arm.description.head)},
        {"exactness", exact ? "exact" : "approximate"},
        {"score_kind", arm.description.score_kind}}},
      {"batch", {{"by", batch.by_seconds ? "seconds" : "count"}, {"size", batch.size}}},
      {"dtype", group.dtype},
      {"device", device.str()}};
  if (batch.largest) fields["batch"]["largest"] = true;
  if (!arm.spec->control_of.empty()) fields["decoder"]["control_of"] = arm.spec->control_of;
  return fields;
}

json failure_record(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                    at::Device device, const std::string& stage, const std::string& message) {
  json record = case_fields(workspace, group, arm, device);
  record["kind"] = "failure";
  record["stage"] = stage;
  record["message"] = message;
  return record;
}

json run_record(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                const RoundResult& result, int64_t round, const EditCounts* reference_edits,
                const EditCounts& edits, const std::string& hash, at::Device device) {
  json record = case_fields(workspace, group, arm, device);
  record["kind"] = "run";
  record["started"] = utc_now();
  record["round"] = round;
  record["order"] = result.order;
  record["regions"] = regions_field(result.times, device.is_cuda());
  record["total_seconds"] = result.seconds;
  record["wall_seconds"] = result.times.wall;
  record["cpu_seconds"] = result.times.cpu;
  record["gap_seconds"] = result.times.wall - result.seconds;
  const Protocol& protocol = workspace.config().protocol;
  record["metrics"] =
      metrics(result, workspace.datasets()[group.dataset].audio_seconds, protocol.overlapped());
  if (protocol.overlapped()) add_stages(record, result, protocol.throughput);
  record["wer"] = wer_field(edits, workspace.normalizer());
  const json oracle = oracle_field(workspace, group, result);
  if (!oracle.is_null()) record["oracle_wer"] = oracle;
  const json boosted = boosted_field(workspace, group, arm, result);
  if (!boosted.is_null()) record["boosted"] = boosted;
  if (is_empty(workspace, group, arm, result)) record["all_empty"] = true;
  record["exactness"] =
      exactness_field(arm, result, reference_edits, edits,
                      workspace.checkpoints()[group.model].config.frame_seconds());
  record["deterministic"] = hash == arm.first_hash;
  record["hypotheses_sha256"] = hash;
  record["tokens_sha256"] = hash_hypotheses(ids_of(workspace, group), result.hypotheses, false);
  record["batches"] = batches_field(result.batches, protocol.overlapped());
  record["counters"] = result.counters;
  if (device.is_cuda()) {
    const auto known = [&](std::optional<int64_t> more) {
      return arm.kept_bytes && more ? json(*arm.kept_bytes + *more) : json();
    };
    const auto mebibytes = [](const json& bytes) {
      return bytes.is_null() ? json() : json(bytes.get<double>() / kMebibyte);
    };
    const json kept = known(0), peak = known(result.decode_bytes);
    record["device_memory"] = {
        {"kept_bytes", kept},
        {"decode_bytes", result.decode_bytes ? json(*result.decode_bytes) : json()},
        {"peak_bytes", peak}};
    record["metrics"]["memory.kept_mib"] = mebibytes(kept);
    record["metrics"]["memory.peak_mib"] = mebibytes(peak);
  }
  return record;
}

void add_energy(json& record, const std::optional<EnergyUse>& use) {
  record["energy"] = nullptr;
  record["metrics"]["energy.joules_per_hour"] = nullptr;
  if (!use) return;
  record["energy"] = {{"watts", use->power.watts},
                      {"updates", use->power.updates},
                      {"seconds", use->seconds},
                      {"passes", use->passes},
                      {"audio_seconds", use->audio_seconds}};
  record["metrics"]["energy.joules_per_hour"] = use->joules_per_audio_hour();
}

std::vector<std::string> ids_of(const Workspace& workspace, const CaseGroup& group) {
  std::vector<std::string> ids;
  for (const Utterance& u : workspace.datasets()[group.dataset].dataset.utterances)
    ids.push_back(u.id);
  return ids;
}

EditCounts score(const Workspace& workspace, const CaseGroup& group, const RoundResult& result) {
  const auto& references = workspace.datasets()[group.dataset].references;
  EditCounts total;
  for (size_t i = 0; i < references.size(); ++i) {
    if (references[i]) total += count_edits(*references[i], result.words[i]);
  }
  return total;
}

std::string hypotheses_lines(const Workspace& workspace, const CaseGroup& group,
                             const RoundResult& result) {
  std::string lines;
  const auto& utterances = workspace.datasets()[group.dataset].dataset.utterances;
  for (size_t i = 0; i < utterances.size(); ++i) {
    json line = to_json(result.hypotheses[i], *workspace.checkpoints()[group.model].tokenizer);
    if (!result.evidence.empty() && !result.evidence[i].confidence.empty())
      line["confidence"] = result.evidence[i].confidence;
    line["id"] = utterances[i].id;
    line["reference"] = utterances[i].text ? json(*utterances[i].text) : json();
    line["seconds"] = workspace.datasets()[group.dataset].seconds[i];
    lines += to_line(line);
  }
  return lines;
}

}  // namespace rtfx
