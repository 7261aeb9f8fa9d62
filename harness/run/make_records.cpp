#include "harness/run/make_records.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "harness/results/metric_table.h"
#include "harness/results/statistics.h"
#include "harness/run/provenance.h"
#include "harness/scoring/exactness.h"
#include "models/dtypes.h"
#include "speech/pipeline/wordless_speech.h"
#include "speech/transcript/formats.h"

namespace rtfx {

using nlohmann::json;

namespace {

/// Null if it is no number.
Nullable<Number> number(double value) {
  return std::isfinite(value) ? Nullable<Number>(value) : std::nullopt;
}

Nullable<Number> number(const std::optional<double>& value) {
  return value ? number(*value) : std::nullopt;
}

constexpr double kMebibyte = 1 << 20;

/// Returns the milliseconds from samples to text of every batch in every pass of the round.
std::vector<double> latencies_of(const RoundResult& result) {
  std::vector<double> milliseconds;
  for (const std::vector<double>& pass : result.latencies)
    for (const double seconds : pass) milliseconds.push_back(1e3 * seconds);
  if (!milliseconds.empty()) return milliseconds;
  for (const BatchTime& batch : result.batches) milliseconds.push_back(1e3 * batch.latency_seconds);
  return milliseconds;
}

double tokens_per_second(const RoundResult& result, double audio_seconds) {
  double tokens = 0;
  for (const Hypothesis& h : result.hypotheses) tokens += static_cast<double>(h.tokens.size());
  return tokens / audio_seconds;
}

/// Regions that share their time with others have no RTFx of their own.
record::Figures round_metrics(const RoundResult& result, double audio_seconds, bool overlapped) {
  const RegionTimes& times = result.times;
  const double encode_decode =
      times.seconds(Region::encoder) + times.seconds(Region::decode) + times.seconds(Region::d2h);
  const std::vector<double> milliseconds = latencies_of(result);
  const auto of_batch = [&](double share) { return number(percentile(milliseconds, share)); };
  const auto alone = [&](double a, double b) { return overlapped ? std::nullopt : number(a / b); };
  return {{"rtfx.total", number(audio_seconds / result.seconds)},
          {"tokens.per_second", number(tokens_per_second(result, audio_seconds))},
          {"rtfx.encode_decode", alone(audio_seconds, encode_decode)},
          {"rtfx.decode", alone(audio_seconds, times.seconds(Region::decode))},
          {"share.decode", alone(times.seconds(Region::decode), result.seconds)},
          {"batch_ms.p50", of_batch(0.5)},
          {"batch_ms.p95", of_batch(0.95)},
          {"batch_ms.p99", of_batch(0.99)}};
}

/// Returns the seconds of each region. The region "confidence" is left out if it took no time.
Named<record::RegionTimes> regions_field(const RegionTimes& times, bool with_device) {
  Named<record::RegionTimes> field;
  for (size_t i = 0; i < kRegions; ++i) {
    if (static_cast<Region>(i) == Region::confidence && times.host[i] == 0) continue;
    record::RegionTimes& region = field[kRegionNames[i]];
    region.host_seconds = times.host[i];
    region.device_seconds = with_device ? Nullable<Number>(times.device[i]) : std::nullopt;
  }
  return field;
}

/// Returns the times of each batch, rounded to 1 us so that a journal of many small batches stays
/// readable.
record::Batches batches_field(const std::vector<BatchTime>& batches, bool overlapped) {
  const auto column = [&](double BatchTime::*member) {
    std::vector<Number> values;
    for (const BatchTime& batch : batches)
      values.emplace_back(std::round(batch.*member * 1e6) / 1e6);
    return values;
  };
  record::Batches field;
  field.audio_seconds = column(&BatchTime::audio_seconds);
  field.total_seconds = column(&BatchTime::total_seconds);
  field.decode_seconds = column(&BatchTime::decode_seconds);
  if (overlapped) field.latency_seconds = column(&BatchTime::latency_seconds);
  return field;
}

Nullable<record::FirstDifference> difference_field(const std::optional<FirstDifference>& first) {
  if (!first) return std::nullopt;
  record::FirstDifference field;
  field.utterance = first->utterance;
  field.frame = first->frame;
  field.seconds = first->seconds;
  field.baseline_words = first->baseline_words;
  field.words = first->words;
  return field;
}

/// Returns the number of utterances with each grade. `wer` is a grade of sets only.
Named<int64_t> grades_field(const GradeCounts& graded) {
  Named<int64_t> grades;
  for (size_t i = 0; i < grade_names().size(); ++i) {
    if (static_cast<Grade>(i) != Grade::wer) grades[grade_names()[i]] = graded.counts[i];
  }
  return grades;
}

record::IsolatedComparison isolated_field(const GradeCounts& graded) {
  record::IsolatedComparison field;
  field.grade = to_string(graded.worst);
  field.grades = grades_field(graded);
  field.first_difference = difference_field(graded.first);
  return field;
}

/// Returns the latencies of batches of one utterance, by its length. Absent if no list of lengths
/// was asked for.
Optional<std::vector<record::LengthLatency>> lengths_field(const LoadedInputs& inputs,
                                                           const CaseGroup& group,
                                                           const RoundResult& result) {
  const std::vector<double>& lengths = inputs.config().datasets[group.dataset].seconds;
  Optional<std::vector<record::LengthLatency>> field;
  if (lengths.size() < 2 || group.rule.by_seconds || group.rule.size != 1) return field;
  std::map<double, std::vector<double>> milliseconds;  // indexed by length
  std::vector<std::vector<double>> passes = result.latencies;
  if (passes.empty()) {  // a round region by region is one pass
    std::vector<double>& pass = passes.emplace_back();
    for (const BatchTime& batch : result.batches) pass.push_back(batch.latency_seconds);
  }
  for (const std::vector<double>& pass : passes) {
    for (size_t b = 0; b < pass.size(); ++b) {
      const double seconds = result.batches[b].audio_seconds;
      const double length = *std::ranges::min_element(
          lengths, {}, [&](double given) { return std::abs(given - seconds); });
      milliseconds[length].push_back(1e3 * pass[b]);
    }
  }
  field.emplace();
  for (const auto& [length, times] : milliseconds) {
    record::LengthLatency& latency = field->emplace_back();
    latency.seconds = length;
    latency.requests = static_cast<int64_t>(times.size());
    latency.p50_ms = number(percentile(times, 0.5));
    latency.p99_ms = number(percentile(times, 0.99));
  }
  return field;
}

record::EncoderRuns encoder_runs(const RecordedEncoder::Counts& counts) {
  record::EncoderRuns field;
  field.launched = counts.launched;
  field.recorded = counts.recorded;
  field.replayed = counts.replayed;
  return field;
}

/// Adds how busy the stages of an overlapped pass were. A stage has a thread and, on a GPU, a
/// stream. It is as busy as the busier of the two.
void add_stages(record::Run& run, const RoundResult& result, const Throughput& throughput) {
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
    run.metrics["busy." + name] = number(seconds / result.seconds);
  record::Pipeline pipeline;
  pipeline.in_flight = throughput.in_flight;
  pipeline.audio = throughput.audio;
  pipeline.pass_seconds.emplace();
  for (const double pass : result.pass_seconds) pipeline.pass_seconds->emplace_back(pass);
  pipeline.encoder = encoder_runs(result.encoder);
  run.pipeline = pipeline;
  run.bound_by = std::ranges::max_element(stages, {}, [](auto& s) { return s.second; })->first;
}

/// Null if nothing was replayed.
Nullable<record::Replay> replay_field(const std::optional<ReplayTotals>& totals,
                                      double frame_seconds) {
  if (!totals) return std::nullopt;
  record::Replay field;
  field.decisions = totals->decisions;
  field.beyond = totals->beyond;
  field.worst_gap_over_bound = number(totals->worst);
  if (const auto& d = totals->first) {
    record::BeyondDecision first;
    first.utterance = totals->utterance;
    first.kind = d->kind;
    first.frame = d->frame;
    first.seconds = static_cast<double>(d->frame) * frame_seconds;
    first.chosen = d->chosen;
    first.best = d->best;
    first.gap = number(d->gap);
    first.bound = number(d->bound);
    field.first = first;
  }
  return field;
}

Nullable<record::Exactness> exactness_field(const Arm& arm, const RoundResult& result,
                                            const EditCounts* baseline_edits,
                                            const EditCounts& edits, const ModelConfig& model) {
  record::Exactness field;
  field.replay = replay_field(result.replay, model.frame_seconds());
  const std::string why = ReplayCheck::left_out(*arm.decoder, model);
  if (!why.empty()) field.replay_left_out = why;
  if (arm.plan.compared_to == arm.spec->id) {
    field.baseline = arm.spec->id;
    field.grade = "baseline";
    return field;
  }
  if (!result.compared) return std::nullopt;
  Grade worst = result.graded.worst;
  const bool same_wer = baseline_edits != nullptr && edits.reference_words > 0 &&
                        baseline_edits->errors() == edits.errors() &&
                        (!result.replay || result.replay->beyond == 0);
  if (worst == Grade::different && same_wer) worst = Grade::wer;
  field.grades = grades_field(result.graded);
  field.baseline = arm.plan.compared_to;
  field.grade = to_string(worst);
  field.first_difference = difference_field(result.graded.first);
  return field;
}

/// Returns the word errors if every utterance had the best text of its n-best list; absent without
/// a list.
Optional<Nullable<record::OracleErrors>> oracle_field(const LoadedInputs& inputs,
                                                      const CaseGroup& group,
                                                      const RoundResult& result) {
  const Normalizer& normalizer = inputs.normalizer();
  const Tokenizer& tokenizer = *inputs.checkpoints()[group.model].tokenizer;
  const auto& references = inputs.datasets()[group.dataset].references;
  EditCounts total;
  size_t entries = 0;
  for (size_t i = 0; i < references.size(); ++i) {
    const std::vector<Hypothesis>& list = result.hypotheses[i].nbest;
    entries = std::max(entries, list.size());
    if (!references[i] || list.empty()) continue;
    std::optional<EditCounts> best;
    for (const Hypothesis& entry : list) {
      const EditCounts edits =
          count_edits(*references[i], normalizer.words(text_of(entry, tokenizer)));
      if (!best || edits.errors() < best->errors()) best = edits;
    }
    total += *best;
  }
  Optional<Nullable<record::OracleErrors>> oracle;
  if (entries == 0) return oracle;
  const record::WordErrors errors = wer_field(total, normalizer);
  record::OracleErrors field;
  field.normalizer = errors.normalizer;
  field.version = errors.version;
  field.wer = errors.wer;
  field.substitutions = errors.substitutions;
  field.insertions = errors.insertions;
  field.deletions = errors.deletions;
  field.reference_words = errors.reference_words;
  field.entries = static_cast<int64_t>(entries);
  oracle.emplace(std::move(field));
  return oracle;
}

/// Sets the counts that boosted words and boosted phrases both have.
template <class Field>
Field counts_field(const BoostedCounts& counts) {
  Field field;
  field.occurrences = counts.occurrences;
  field.recalled = counts.recalled;
  field.false_alarms = counts.false_alarms;
  field.recall = number(counts.recall());
  field.precision = number(counts.precision());
  return field;
}

/// Absent for a decoder that boosts no words.
Optional<Nullable<record::Boosted>> boosted_field(const LoadedInputs& inputs,
                                                  const CaseGroup& group, const Arm& arm,
                                                  const RoundResult& result) {
  Optional<Nullable<record::Boosted>> field;
  if (arm.boosted.empty() && arm.biases.empty()) return field;
  const auto& references = inputs.datasets()[group.dataset].references;
  BoostedCounts total, phrases;
  size_t most = 0;
  for (size_t i = 0; i < references.size(); ++i) {
    const BoostedWords& boosted = arm.biases.empty() ? arm.boosted : *arm.biases.boosted[i];
    most = std::max(most, boosted.phrases.size());
    if (!references[i]) continue;
    total += count_boosted(*references[i], result.words[i], boosted);
    phrases += count_phrases(*references[i], result.words[i], boosted);
  }
  auto boosted = counts_field<record::Boosted>(total);
  boosted.phrases = counts_field<record::BoostedPhrases>(phrases);
  boosted.phrases->count = static_cast<int64_t>(most);
  boosted.f_score = number(f_score(phrases));
  boosted.words = static_cast<int64_t>(arm.boosted.words.size());
  boosted.left_out = arm.boosted.left_out;
  field.emplace(std::move(boosted));
  return field;
}

/// Returns whether no hypothesis has a token although there is something to hear: a reference with
/// words, or sound of more than -40 dB.
bool is_empty(const LoadedInputs& inputs, const CaseGroup& group, const Arm& arm,
              const RoundResult& result) {
  const auto has_tokens = [](const Hypothesis& h) { return !h.tokens.empty(); };
  if (arm.description.head == Head::none || std::ranges::any_of(result.hypotheses, has_tokens))
    return false;
  const LoadedDataset& dataset = inputs.datasets()[group.dataset];
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

/// Absent if there is no such part, and for a decoder that finds no tokens.
Optional<record::WordlessSpeech> wordless_field(const LoadedInputs& inputs, const CaseGroup& group,
                                                const Arm& arm, const RoundResult& result) {
  Optional<record::WordlessSpeech> field;
  if (arm.description.head == Head::none) return field;
  const ModelConfig& model = inputs.checkpoints()[group.model].config;
  const auto& audio = inputs.datasets()[group.dataset].audio;
  const auto block = static_cast<size_t>(model.features.hop * model.encoder.factor());
  const WordlessRule rule{.block_seconds = model.frame_seconds(), .whole = true};
  double seconds = 0;
  for (size_t i = 0; i < audio.size(); ++i) {
    const std::vector<int32_t>& frames = result.hypotheses[i].frames;
    const std::vector<size_t> tokens(frames.begin(), frames.end());
    if (result.hypotheses[i].nan || !has_wordless_run(audio[i].size() / block + 1, tokens, rule))
      continue;
    const std::vector<float> levels = block_levels(audio[i], block);
    LevelHistogram heard;
    heard.add(levels);
    const std::vector<BlockRange> parts = wordless_speech(levels, heard, tokens, rule);
    if (parts.empty()) continue;
    if (!field) field.emplace();
    ++field->utterances;
    field->parts += std::ssize(parts);
    for (const BlockRange& part : parts)
      seconds += static_cast<double>(part.size()) * rule.block_seconds;
  }
  if (field) field->seconds = Number(seconds);
  return field;
}

std::string head_name(Head head) {
  return head == Head::ctc ? "ctc" : head == Head::transducer ? "transducer" : "none";
}

}  // namespace

record::WordErrors wer_field(const EditCounts& edits, const Normalizer& normalizer) {
  record::WordErrors field;
  field.normalizer = normalizer.name;
  field.version = normalizer.version;
  field.wer = number(edits.wer());
  field.substitutions = edits.substitutions;
  field.insertions = edits.insertions;
  field.deletions = edits.deletions;
  field.reference_words = edits.reference_words;
  if (edits.reference_characters > 0) {
    field.cer = number(edits.cer());
    field.character_errors = edits.character_errors;
    field.reference_characters = edits.reference_characters;
    field.unspaced_characters = edits.unspaced_characters;
  }
  return field;
}

template <class Record>
Record case_record(const LoadedInputs& inputs, const CaseGroup& group, const Arm& arm,
                   at::Device device, const char* kind) {
  const Config& config = inputs.config();
  const LoadedDataset& dataset = inputs.datasets()[group.dataset];
  const Checkpoint& checkpoint = inputs.checkpoints()[group.model];
  const BatchRule& batch = group.rule;
  const bool exact = arm.description.exactness == Description::Exactness::exact;
  Record fields;
  fields.kind = kind;
  fields.schema = 1;
  fields.case_name = arm.plan.case_name;
  fields.result_key = arm.result_key;
  fields.model.id = config.models[group.model].id;
  fields.model.kind = checkpoint.config.kind();
  using Text = Nullable<std::string>;
  const auto text = [](const std::string& value) { return value.empty() ? Text() : Text(value); };
  fields.model.stand_in = text(checkpoint.stand_in);
  fields.dataset.id = dataset.dataset.id;
  fields.dataset.utterances = static_cast<int64_t>(dataset.dataset.utterances.size());
  fields.dataset.audio_seconds = Number(dataset.audio_seconds);
  fields.dataset.stand_in = text(dataset.dataset.stand_in);
  fields.decoder.id = arm.spec->id;
  fields.decoder.name = arm.spec->name;
  fields.decoder.options = OptionTree{arm.decoder->options()};
  fields.decoder.head = head_name(arm.description.head);
  fields.decoder.exactness = std::string(exact ? "exact" : "approximate");
  fields.decoder.score_kind = arm.description.score_kind;
  if (!arm.spec->control_of.empty()) fields.decoder.control_of = arm.spec->control_of;
  fields.batch.by = batch.by_seconds ? "seconds" : "count";
  fields.batch.size = batch.size;
  if (batch.largest) fields.batch.largest = true;
  fields.dtype = group.dtype;
  fields.device = device.str();
  return fields;
}
template record::StreamRun case_record<record::StreamRun>(const LoadedInputs&, const CaseGroup&,
                                                          const Arm&, at::Device, const char*);
template record::Profile case_record<record::Profile>(const LoadedInputs&, const CaseGroup&,
                                                      const Arm&, at::Device, const char*);
template record::Roofline case_record<record::Roofline>(const LoadedInputs&, const CaseGroup&,
                                                        const Arm&, at::Device, const char*);

record::Failure failure_record(const LoadedInputs& inputs, const CaseGroup& group, const Arm& arm,
                               at::Device device, const std::string& stage,
                               const std::string& message) {
  auto failure = case_record<record::Failure>(inputs, group, arm, device, "failure");
  failure.stage = stage;
  failure.message = message;
  return failure;
}

record::Run run_record(const LoadedInputs& inputs, const CaseGroup& group, const Arm& arm,
                       const RoundResult& result, int64_t round, const EditCounts* baseline_edits,
                       const EditCounts& edits, const std::string& hash, at::Device device) {
  auto run = case_record<record::Run>(inputs, group, arm, device, "run");
  run.started = utc_now();
  run.round = round;
  run.order = result.order;
  run.regions = regions_field(result.times, device.is_cuda());
  run.total_seconds = result.seconds;
  run.wall_seconds = Number(result.times.wall);
  run.cpu_seconds = Number(result.times.cpu);
  run.gap_seconds = Number(result.times.wall - result.seconds);
  const Protocol& protocol = inputs.config().protocol;
  run.metrics =
      round_metrics(result, inputs.datasets()[group.dataset].audio_seconds, protocol.overlapped());
  run.metrics["tokens.reference_per_second"] =
      number(inputs.reference_tokens_per_second(group.model, group.dataset));
  run.reference_seconds = Number(inputs.reference_seconds(group.dataset));
  if (protocol.overlapped()) add_stages(run, result, protocol.throughput);
  if (result.isolated) run.isolated = isolated_field(*result.isolated);
  run.lengths = lengths_field(inputs, group, result);
  run.wer = wer_field(edits, inputs.normalizer());
  run.oracle_wer = oracle_field(inputs, group, result);
  run.boosted = boosted_field(inputs, group, arm, result);
  if (is_empty(inputs, group, arm, result)) run.all_empty = true;
  run.wordless_speech = wordless_field(inputs, group, arm, result);
  run.exactness =
      exactness_field(arm, result, baseline_edits, edits, inputs.checkpoints()[group.model].config);
  run.deterministic = hash == arm.first_hash && result.repeats;
  run.hypotheses_sha256 = hash;
  run.tokens_sha256 = hash_hypotheses(ids_of(inputs, group), result.hypotheses, false);
  run.batches = batches_field(result.batches, protocol.overlapped());
  run.counters.emplace(result.counters.begin(), result.counters.end());
  if (device.is_cuda()) {
    using Bytes = Nullable<int64_t>;
    const auto known_sum = [&](const Bytes& more) {
      return arm.kept_bytes && more ? Bytes(*arm.kept_bytes + *more) : Bytes();
    };
    const auto mebibytes = [](const Bytes& bytes) {
      return bytes ? number(static_cast<double>(*bytes) / kMebibyte) : std::nullopt;
    };
    const Bytes kept = known_sum(0), peak = known_sum(result.decode_bytes);
    record::DeviceMemory memory;
    memory.kept_bytes = kept;
    memory.decode_bytes = result.decode_bytes;
    memory.peak_bytes = peak;
    run.device_memory = memory;
    run.metrics["memory.kept_mib"] = mebibytes(kept);
    run.metrics["memory.peak_mib"] = mebibytes(peak);
  }
  return run;
}

void add_first_pass(record::Run& run, const FirstPass& first) {
  record::FirstPass field;
  field.seconds = first.seconds;
  field.first_text_seconds = first.first_text_seconds;
  field.encoder = encoder_runs(first.encoder);
  run.first_pass = field;
  run.metrics["rtfx.first_pass"] = number(double{run.dataset.audio_seconds} / first.seconds);
  run.metrics["batch_ms.first"] = number(1e3 * first.first_text_seconds);
}

void add_energy(record::Run& run, const std::optional<EnergyUse>& use) {
  Nullable<record::Energy> energy;
  if (use) {
    energy.emplace();
    energy->watts = use->power.watts;
    energy->updates = use->power.updates;
    energy->seconds = use->seconds;
    energy->passes = use->passes;
    energy->audio_seconds = use->audio_seconds;
  }
  run.energy = energy;
  run.metrics["energy.joules_per_hour"] = use ? number(use->joules_per_audio_hour()) : std::nullopt;
}

void add_conditions(record::Run& run, const Conditions& conditions,
                    const std::vector<std::string>& suspect) {
  record::MachineConditions field;
  field.wall_seconds = Number(conditions.wall_seconds);
  field.cpu_wait_seconds = number(conditions.cpu_wait_seconds);
  field.stopped_seconds = Number(conditions.stopped_seconds);
  field.other_cpus = number(conditions.other_cpus);
  if (const auto& gpu = conditions.gpu) {
    if (gpu->sm_clock_mean_mhz && gpu->sm_clock_min_mhz) {
      record::ClockRate clock;
      clock.mean = *gpu->sm_clock_mean_mhz;
      clock.min = *gpu->sm_clock_min_mhz;
      clock.device_max = gpu->sm_clock_max_mhz;
      field.sm_clock_mhz = clock;
    }
    if (gpu->memory_clock_mhz) field.memory_clock_mhz = Number(*gpu->memory_clock_mhz);
    if (gpu->temperature_c) field.temperature_c = Number(*gpu->temperature_c);
    if (gpu->power_w) field.power_w = Number(*gpu->power_w);
    field.throttle = throttle_names(gpu->throttle_reasons);
  }
  run.conditions = field;
  run.suspect = suspect;
}

void check_metrics(const record::Run& run) {
  for (const auto& [key, value] : run.metrics)
    RTFX_CHECK(find_stored_in_run(key) != nullptr, "metric_table() has each stored metric: " + key);
}

std::vector<std::string> ids_of(const LoadedInputs& inputs, const CaseGroup& group) {
  std::vector<std::string> ids;
  for (const Utterance& u : inputs.datasets()[group.dataset].dataset.utterances)
    ids.push_back(u.id);
  return ids;
}

EditCounts score(const LoadedInputs& inputs, const CaseGroup& group, const RoundResult& result) {
  const auto& references = inputs.datasets()[group.dataset].references;
  EditCounts total;
  for (size_t i = 0; i < references.size(); ++i) {
    if (references[i]) total += count_edits_and_characters(*references[i], result.words[i]);
  }
  return total;
}

std::string hypotheses_lines(const LoadedInputs& inputs, const CaseGroup& group,
                             const RoundResult& result) {
  std::string lines;
  const auto& utterances = inputs.datasets()[group.dataset].dataset.utterances;
  for (size_t i = 0; i < utterances.size(); ++i) {
    json line = to_json(result.hypotheses[i], *inputs.checkpoints()[group.model].tokenizer);
    if (!result.evidence.empty() && !result.evidence[i].confidence.empty())
      line["confidence"] = result.evidence[i].confidence;
    line["id"] = utterances[i].id;
    line["reference"] = utterances[i].text ? json(*utterances[i].text) : json();
    line["seconds"] = inputs.datasets()[group.dataset].seconds[i];
    lines += to_line(line);
  }
  return lines;
}

}  // namespace rtfx
