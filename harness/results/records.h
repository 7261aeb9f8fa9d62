// The records of a journal as structs. Their tables in records.cpp give the unit and the meaning of
// each field. docs/reference/journal.md is made from these tables.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/results/record_table.h"

namespace rtfx::record {

/// A member that every record of this kind has, although it is Optional in another kind.
template <class T>
using Always = T;

/// Metrics of a round by their keys.
using Figures = Named<Nullable<Number>>;

/// The fields of every record.
struct CommonFields {
  Optional<SharedText> kind, provenance_id, started;
  Optional<int64_t> schema;
  Optional<bool> profiled;
  Box<nlohmann::json> other;
};

struct Model {
  SharedText id;
  Optional<SharedText> kind;
  Optional<Nullable<SharedText>> stand_in;
  Box<nlohmann::json> other;
  static const RecordTable<Model>& table();
};

/// `Presence` is Optional in records of imported profiles, which know only the case's name.
template <template <class> class Presence>
struct Dataset {
  SharedText id;
  Presence<int64_t> utterances = {};
  Presence<Number> audio_seconds = {};
  Optional<Nullable<SharedText>> stand_in;
  Box<nlohmann::json> other;
  static const RecordTable<Dataset>& table();
};

template <template <class> class Presence>
struct Decoder {
  SharedText id, name;
  Optional<OptionTree> options;
  Presence<SharedText> head, exactness;
  Optional<SharedText> score_kind, control_of;
  Box<nlohmann::json> other;
  static const RecordTable<Decoder>& table();
};

struct Batch {
  SharedText by;
  Number size;
  Optional<bool> largest;
  Box<nlohmann::json> other;
  static const RecordTable<Batch>& table();
};

/// The fields that name a case.
template <template <class> class Presence>
struct CaseFields {
  SharedText case_name, result_key;
  Model model;
  Dataset<Presence> dataset;
  Decoder<Presence> decoder;
  Batch batch;
  SharedText dtype, device;
};
using Case = CaseFields<Always>;

struct RegionTimes {
  Number host_seconds;
  Optional<Nullable<Number>> device_seconds;
  Box<nlohmann::json> other;
  static const RecordTable<RegionTimes>& table();
};

struct WordErrors {
  SharedText normalizer;
  int64_t version = 0;
  Nullable<Number> wer;
  int64_t substitutions = 0, insertions = 0, deletions = 0;
  Optional<int64_t> reference_words;
  Optional<Nullable<Number>> cer;
  Optional<int64_t> character_errors, reference_characters, unspaced_characters;
  Box<nlohmann::json> other;
  static const RecordTable<WordErrors>& table();
};

struct OracleErrors {
  Optional<std::string> normalizer;
  Optional<int64_t> version;
  Optional<Nullable<Number>> wer;
  Optional<int64_t> substitutions, insertions, deletions, reference_words, entries;
  Box<nlohmann::json> other;
  static const RecordTable<OracleErrors>& table();
};

struct BoostedPhrases {
  Optional<int64_t> occurrences, recalled, false_alarms, count;
  Optional<Nullable<Number>> recall, precision;
  Box<nlohmann::json> other;
  static const RecordTable<BoostedPhrases>& table();
};

struct Boosted {
  Optional<int64_t> occurrences, recalled, false_alarms, words, left_out;
  Optional<Nullable<Number>> recall, precision, f_score;
  Optional<BoostedPhrases> phrases;
  Box<nlohmann::json> other;
  static const RecordTable<Boosted>& table();
};

struct WordlessSpeech {
  int64_t utterances = 0, parts = 0;
  Number seconds;
  Box<nlohmann::json> other;
  static const RecordTable<WordlessSpeech>& table();
};

struct FirstDifference {
  std::string utterance;
  int64_t frame = 0;
  Number seconds;
  std::string baseline_words, words;
  Box<nlohmann::json> other;
  static const RecordTable<FirstDifference>& table();
};

struct BeyondDecision {
  std::string utterance, kind;
  int64_t frame = 0;
  Number seconds;
  int64_t chosen = 0, best = 0;
  Nullable<Number> gap, bound;
  Box<nlohmann::json> other;
  static const RecordTable<BeyondDecision>& table();
};

struct Replay {
  int64_t decisions = 0, beyond = 0;
  Nullable<Number> worst_gap_over_bound;
  Nullable<BeyondDecision> first;
  Box<nlohmann::json> other;
  static const RecordTable<Replay>& table();
};

struct Exactness {
  SharedText baseline, grade;
  Named<int64_t> grades;
  Nullable<FirstDifference> first_difference;
  Optional<Nullable<Replay>> replay;
  Optional<std::string> replay_left_out;
  Box<nlohmann::json> other;
  static const RecordTable<Exactness>& table();
};

struct Batches {
  std::vector<Number> audio_seconds, total_seconds, decode_seconds;
  Optional<std::vector<Number>> latency_seconds;
  Box<nlohmann::json> other;
  static const RecordTable<Batches>& table();
};

struct EncoderRuns {
  int64_t launched = 0, recorded = 0, replayed = 0;
  Box<nlohmann::json> other;
  static const RecordTable<EncoderRuns>& table();
};

struct FirstPass {
  Number seconds, first_text_seconds;
  EncoderRuns encoder;
  Box<nlohmann::json> other;
  static const RecordTable<FirstPass>& table();
};

struct IsolatedComparison {
  std::string grade;
  Named<int64_t> grades;
  Nullable<FirstDifference> first_difference;
  Box<nlohmann::json> other;
  static const RecordTable<IsolatedComparison>& table();
};

struct LengthLatency {
  Number seconds;
  int64_t requests = 0;
  Nullable<Number> p50_ms, p99_ms;
  Box<nlohmann::json> other;
  static const RecordTable<LengthLatency>& table();
};

struct Pipeline {
  int64_t in_flight = 0;
  std::string audio;
  Optional<std::vector<Number>> pass_seconds;
  Optional<EncoderRuns> encoder;
  Box<nlohmann::json> other;
  static const RecordTable<Pipeline>& table();
};

struct DeviceMemory {
  Optional<Nullable<int64_t>> kept_bytes, decode_bytes, peak_bytes;
  Box<nlohmann::json> other;
  static const RecordTable<DeviceMemory>& table();
};

struct Energy {
  Number watts;
  int64_t updates = 0;
  Number seconds;
  int64_t passes = 0;
  Number audio_seconds;
  Box<nlohmann::json> other;
  static const RecordTable<Energy>& table();
};

struct ClockRate {
  Number mean, min, device_max;
  Box<nlohmann::json> other;
  static const RecordTable<ClockRate>& table();
};

struct MachineConditions {
  Optional<Number> wall_seconds;
  Optional<Nullable<Number>> cpu_wait_seconds, other_cpus;
  Optional<Number> stopped_seconds;
  Optional<ClockRate> sm_clock_mhz;
  Optional<Number> memory_clock_mhz, temperature_c, power_w;
  Optional<std::vector<std::string>> throttle;
  Box<nlohmann::json> other;
  static const RecordTable<MachineConditions>& table();
};

struct ShardTimes {
  std::vector<Number> total_seconds, decode_seconds;
  Number skew;
  Box<nlohmann::json> other;
  static const RecordTable<ShardTimes>& table();
};

/// Figures of decoding in one lap, from the profile beside a journal.
struct DecodeProfile {
  std::optional<double> launches, graph_launches, idle;
};

struct Run : CommonFields, Case {
  int64_t round = 0;
  Optional<int64_t> order;
  Named<RegionTimes> regions;
  Number total_seconds;
  Optional<Number> wall_seconds, cpu_seconds, gap_seconds;
  Optional<Number> reference_seconds;
  Figures metrics;
  WordErrors wer;
  Optional<Nullable<OracleErrors>> oracle_wer;
  Optional<Nullable<Boosted>> boosted;
  Optional<bool> all_empty;
  Optional<WordlessSpeech> wordless_speech;
  Nullable<Exactness> exactness;
  Optional<bool> deterministic;
  SharedText hypotheses_sha256;
  Optional<SharedText> tokens_sha256;
  Optional<Named<Number>> counters;
  Optional<Batches> batches;
  Optional<Pipeline> pipeline;
  Optional<FirstPass> first_pass;
  Optional<IsolatedComparison> isolated;
  Optional<std::vector<LengthLatency>> lengths;
  Optional<SharedText> bound_by;
  Optional<DeviceMemory> device_memory;
  Optional<Nullable<Energy>> energy;
  Optional<MachineConditions> conditions;
  Optional<std::vector<std::string>> suspect;
  Optional<ShardTimes> shards;
  /// Not a field of the record: read_results() adds it to a case's first round.
  DecodeProfile profile;
  static const RecordTable<Run>& table();
};

struct Spread {
  Number mean, sd, min, max;
  Box<nlohmann::json> other;
  static const RecordTable<Spread>& table();
};

struct Summary : CommonFields {
  std::string case_name, result_key;
  int64_t rounds = 0;
  Nullable<Spread> rtfx_total, rtfx_decode;
  Nullable<std::string> grade;
  bool deterministic = true;
  Nullable<Number> cv;
  bool noisy = false;
  Optional<std::string> stopped_by;
  static const RecordTable<Summary>& table();
};

struct Streamed {
  Optional<int64_t> utterances, tokens;
  int64_t different = 0;
  Nullable<std::string> first_difference;
  Box<nlohmann::json> other;
  static const RecordTable<Streamed>& table();
};

/// How a rule ended the utterances of live streams.
struct EndpointRun {
  std::string rule;
  Nullable<Number> seconds;
  int64_t ends = 0, early = 0, missed = 0;
  Nullable<Number> delay_seconds, delay_p50_seconds, delay_p95_seconds;
  Box<nlohmann::json> other;
  static const RecordTable<EndpointRun>& table();
};

/// Words of whole utterances that are missing when the utterances are streamed.
struct LostWords {
  int64_t words = 0, lost = 0, lost_at_seams = 0;
  Nullable<Number> share_at_seams;
  Number seam_seconds;
  Box<nlohmann::json> other;
  static const RecordTable<LostWords>& table();
};

/// Compares the words of streamed utterances with those of whole ones, by the same decoder.
struct StreamedQuality {
  WordErrors streamed, whole;
  Number difference;
  Nullable<Number> low, high;
  Optional<Nullable<Number>> first_delay_seconds, lag_seconds, lag_p95_seconds, changed_share;
  Optional<LostWords> lost_words;
  Box<nlohmann::json> other;
  static const RecordTable<StreamedQuality>& table();
};

struct StreamRun : CommonFields, Case {
  OptionTree stream;
  Optional<int64_t> requests, batches;
  bool stable = false;
  Optional<Nullable<bool>> slo;
  Optional<bool> confirms;
  Figures metrics;
  Streamed streamed;
  Optional<StreamedQuality> quality;
  Optional<std::vector<EndpointRun>> endpoints;
  static const RecordTable<StreamRun>& table();
};

struct Failure : CommonFields, Case {
  std::string stage, message;
  static const RecordTable<Failure>& table();
};

struct Build {
  Optional<std::string> version, revision, build_type, compiler;
  Optional<bool> dirty, sanitizer;
  Box<nlohmann::json> other;
  static const RecordTable<Build>& table();
};

struct Device {
  Optional<std::string> type, name, uuid, capability;
  Optional<int64_t> memory_bytes, multiprocessors;
  Box<nlohmann::json> other;
  static const RecordTable<Device>& table();
};

struct Affinity {
  int64_t cpus = 0;
  std::string list;
  Box<nlohmann::json> other;
  static const RecordTable<Affinity>& table();
};

struct GroupLimits {
  Nullable<Number> cpus;
  Nullable<int64_t> memory_bytes;
  Box<nlohmann::json> other;
  static const RecordTable<GroupLimits>& table();
};

struct Cpu {
  Optional<std::string> model, wait_policy;
  Optional<int64_t> family, model_number, stepping, cache_kib, cores, threads;
  Optional<Number> clock_mhz, calibration_ms;
  Optional<Nullable<std::string>> hypervisor;
  Optional<Affinity> affinity;
  Optional<Nullable<Number>> load_average;
  Optional<GroupLimits> group_limits;
  Box<nlohmann::json> other;
  static const RecordTable<Cpu>& table();
};

struct ModelFile {
  std::string id;
  Optional<std::string> path, format, kind, sha256;
  Optional<int64_t> parameters;
  Optional<Nullable<std::string>> stand_in;
  Optional<std::vector<std::string>> notices;
  Box<nlohmann::json> other;
  static const RecordTable<ModelFile>& table();
};

struct DatasetFile {
  std::string id;
  Optional<std::string> path, sha256;
  Optional<Nullable<std::string>> stand_in;
  Optional<int64_t> utterances;
  Optional<Number> audio_seconds, load_seconds;
  Optional<std::vector<std::string>> notices;
  Box<nlohmann::json> other;
  static const RecordTable<DatasetFile>& table();
};

struct ShardDevices {
  Optional<int64_t> count;
  Optional<std::vector<Device>> devices;
  Box<nlohmann::json> other;
  static const RecordTable<ShardDevices>& table();
};

struct Provenance : CommonFields {
  Optional<std::string> name, question, config_hash, libtorch, host_name, host_os, imported_from;
  Optional<OptionTree> config;
  Optional<Build> rtfx;
  Optional<Nullable<std::string>> cuda_runtime, cuda_driver;
  Optional<Nullable<int64_t>> cudnn;
  Optional<Device> device;
  Optional<Cpu> cpu;
  Optional<bool> tf32;
  Optional<std::vector<ModelFile>> models;
  Optional<std::vector<DatasetFile>> datasets;
  Optional<Named<std::string>> decoder_files;
  Optional<ShardDevices> shards;
  static const RecordTable<Provenance>& table();
};

/// All runs of one kernel, or all calls of one function.
struct KernelRuns {
  std::string name;
  int64_t count = 0;
  Number total_seconds, mean_seconds, min_seconds, max_seconds;
  Optional<Number> share;
  Box<nlohmann::json> other;
  static const RecordTable<KernelRuns>& table();
};

struct BusyShare {
  Number share;
  Nullable<Number> low, high;
  Box<nlohmann::json> other;
  static const RecordTable<BusyShare>& table();
};

struct ProfiledRegion {
  Optional<Number> wall_seconds;
  Optional<std::vector<Number>> lap_seconds;
  Optional<Nullable<std::vector<Number>>> undisturbed_seconds, lap_kernel_seconds;
  Optional<Nullable<BusyShare>> busy;
  Optional<Nullable<Number>> gpu_busy, gpu_idle, gpu_busy_with_copies, gpu_idle_with_copies,
      gpu_starved, gpu_idle_launch;
  Optional<Nullable<int64_t>> kernels, graph_kernels, launches, graph_launches, copies,
      copied_bytes, synchronizations;
  Optional<Nullable<Number>> kernel_seconds, kernel_mean_seconds, synchronization_seconds,
      longest_gap_seconds;
  Optional<Nullable<std::vector<KernelRuns>>> top_kernels, top_calls;
  Box<nlohmann::json> other;
  static const RecordTable<ProfiledRegion>& table();
};

struct Profile : CommonFields, CaseFields<Optional> {
  Optional<int64_t> laps;
  Optional<Nullable<std::string>> gpu_figures, graph_trace, collector;
  Optional<Nullable<int64_t>> dropped_records, records_without_time;
  Optional<bool> valid;
  Optional<std::vector<std::string>> remarks;
  Optional<Named<ProfiledRegion>> regions;
  Optional<std::vector<KernelRuns>> segments;
  static const RecordTable<Profile>& table();
};

struct DeviceLimits {
  Number bytes_per_second, vector_flop_per_second;
  Nullable<Number> matrix_flop_per_second;
  Box<nlohmann::json> other;
  static const RecordTable<DeviceLimits>& table();
};

struct CountedKernel {
  std::string part, name;
  int64_t count = 0;
  Number seconds, bytes, l2_bytes, flop;
  Named<Number> shares;
  Number share;
  std::string bound;
  Box<nlohmann::json> other;
  static const RecordTable<CountedKernel>& table();
};

struct OperatorCost {
  std::string name;
  int64_t count = 0;
  Number bytes, flop;
  Nullable<Number> least_seconds;
  Box<nlohmann::json> other;
  static const RecordTable<OperatorCost>& table();
};

struct Roofline : CommonFields, Case {
  std::string region;
  int64_t laps = 0;
  Number seconds;
  Nullable<DeviceLimits> limits;
  std::vector<std::string> remarks;
  Nullable<Number> least_seconds, share;
  std::string source;
  Optional<std::vector<CountedKernel>> kernels;
  Optional<std::vector<OperatorCost>> operators;
  static const RecordTable<Roofline>& table();
};

/// A record of a kind that this program does not read.
struct Unknown : CommonFields {
  Optional<std::string> result_key;
  Optional<int64_t> round;
  Optional<bool> deterministic;
  Optional<std::vector<std::string>> suspect;
  static const RecordTable<Unknown>& table();
};

using Any = std::variant<Unknown, Provenance, Run, Summary, StreamRun, Failure, Profile, Roofline>;

/// The records in the order of their journal.
using Records = std::deque<Any>;

/// A round of a case of `rtfx run` or `rtfx stream`.
using Round = std::variant<Run, StreamRun>;
using Rounds = std::deque<Round>;

/// Returns the fields that all records of a variant have.
template <class Variant>
const CommonFields& common_fields(const Variant& record) {
  return std::visit([](const CommonFields& one) -> const CommonFields& { return one; }, record);
}
template <class Variant>
CommonFields& common_fields(Variant& record) {
  return std::visit([](CommonFields& one) -> CommonFields& { return one; }, record);
}
template <class Variant>
const Case& fields(const Variant& record) {
  return std::visit([](const Case& one) -> const Case& { return one; }, record);
}
const Figures& metrics(const Round& round);
/// Returns the number of a round, from 0. Rounds of streams have no number, and give 0.
int64_t number_of(const Round& round);

/// Returns the reasons to distrust the round's times; null in journals that lack them.
const std::vector<std::string>* suspect_reasons(const Round& round);
bool is_suspect(const Round& round);

/// A kind of record, and the file that holds it.
struct Kind {
  std::string name, file;
  const TableCore& (*table)();
  void* (*make)(Any& record);  // makes an empty record of the kind, and returns it

  const ObjectInfo& info() const { return table().info(); }
};

/// All kinds in the order of the reference page.
const std::vector<Kind>& kinds();

/// Returns null for a kind that is not in kinds().
const Kind* find_kind(std::string_view name);

/// Reads an object, or a part of one, that check_record() accepts.
Any read(const nlohmann::json& object);

/// Reads a line of a journal. Throws UserError(where) if it is not a JSON object, and as
/// check_record() does.
Any read_line(std::string_view line, const std::string& where, SharedTrees& trees);

/// Throws UserError(where) for the first field that is missing or of another type, and names it. An
/// unknown grade or dtype is an error, and so is a case name that does not begin with model,
/// dataset and decoder of its record. Records of other kinds, and fields that no table lists, may
/// hold anything.
void check_record(const nlohmann::json& record, const std::string& where);

template <class Record>
concept Tabled = requires {
  Record::table();
};

/// Writes all members that are present, and the fields that no table lists. A record that read()
/// has read gives the same JSON again.
template <Tabled Record>
nlohmann::json write(const Record& record) {
  return Record::table().write(record);
}
template <class... Kinds>
nlohmann::json write(const std::variant<Kinds...>& record) {
  return std::visit([](const auto& one) { return write(one); }, record);
}

/// Appends the text of write(), without the end of a line.
template <Tabled Record>
void write(const Record& record, std::string& text) {
  write_object(&record, Record::table().core(), text);
}
template <class... Kinds>
void write(const std::variant<Kinds...>& record, std::string& text) {
  std::visit([&](const auto& one) { write(one, text); }, record);
}

/// Returns the record as a line of a journal.
template <class Record>
std::string to_line(const Record& record) {
  std::string line;
  write(record, line);
  return line + "\n";
}

}  // namespace rtfx::record
