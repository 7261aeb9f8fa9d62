#include "harness/results/records.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "harness/results/metric_table.h"
#include "harness/scoring/exactness.h"
#include "models/dtypes.h"

namespace rtfx::record {
namespace {

using nlohmann::json;

template <class Record>
RecordTable<Record> with_common_fields(RecordTable<Record>&& table) {
  return std::move(table)
      .group("every record")
      .add("kind", &Record::kind, "", "Kind of the record, such as `run`.")
      .add("schema", &Record::schema, "", "Version of the journal's format, which is 1.")
      .add("provenance_id", &Record::provenance_id, "",
           "Id that a `provenance` record shares with all records of its invocation.")
      .add("started", &Record::started, "",
           "UTC time in ISO 8601. For `provenance` and `stream`, the start of the invocation "
           "or trial. For other kinds, the end of the measurement.")
      .add("profiled", &Record::profiled, "",
           "True in records of `rtfx profile`. Tables and reports refuse them, because the "
           "profiler changes the times.")
      .group("");
}

template <class Record>
RecordTable<Record> with_case(RecordTable<Record>&& table) {
  return with_common_fields(std::move(table))
      .group("a case")
      .add("case", &Record::case_name, "", "Name of the case: model/dataset/decoder/batch/dtype.")
      .add("result_key", &Record::result_key, "",
           "Hash of everything on which the results depend. `--resume` continues a case only "
           "if this key is equal.")
      .add("model", &Record::model, "", "Model of the case.")
      .add("dataset", &Record::dataset, "", "Dataset of the case.")
      .add("decoder", &Record::decoder, "", "Decoder of the case.")
      .add("batch", &Record::batch, "", "Size of the batches, or number of streams.")
      .add("dtype", &Record::dtype, "",
           "Number type of encoder and decoder. `bf16+fp32`: encoder in bf16, decoder in "
           "fp32. `fp8`: encoder in fp8, decoder in bf16.")
      .add("device", &Record::device, "", "Device of encoder and decoder, such as `cuda:0`.")
      .group("");
}

FieldInfo named(std::string name, unsigned types, std::vector<FieldInfo> elements) {
  FieldInfo info = rtfx::named(std::move(name), types);
  info.elements = std::move(elements);
  return info;
}
using rtfx::named;

/// Adds a required member that has a table.
template <class Record>
FieldInfo named_object(std::string name) {
  FieldInfo info = detail::field_of(detail::kSlotType<Record>);
  info.name = std::move(name);
  return info;
}

/// Returns the fields of the metrics that a round may store.
std::vector<FieldInfo> run_metrics() {
  std::vector<FieldInfo> list;
  for (const MetricInfo& metric : metric_table()) {
    if (const auto* stored = std::get_if<StoredInRun>(&metric.source))
      list.push_back(named(metric.key, stored->types, stored->required));
  }
  return list;
}

/// Returns the parts of a configuration that readers of a journal use.
std::vector<FieldInfo> config_members() {
  return {
      named("verify", kObject, {named("required", kObject, {named("*", kText)})}),
      named("protocol", kObject, {named("cv_max", kNumber), named("measured_rounds", kInteger)})};
}

template <class Record>
Kind kind_of(std::string name, std::string file) {
  return {std::move(name), std::move(file),
          []() -> const TableCore& { return Record::table().core(); },
          [](Any& record) -> void* { return &record.emplace<Record>(); }};
}

/// Returns the kind of the first member "kind" in the line whose value is in kinds(). It is most
/// likely the kind of the record.
const Kind* likely_kind(std::string_view line) {
  constexpr std::string_view kMember = "\"kind\":";
  for (size_t at = line.find(kMember); at != line.npos; at = line.find(kMember, at + 1)) {
    std::string_view value = line.substr(at + kMember.size());
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (!value.starts_with('"')) continue;
    value = value.substr(1, value.find('"', 1) - 1);
    if (const Kind* kind = find_kind(value)) return kind;
  }
  return nullptr;
}

/// Comparisons split the name: model/dataset/decoder/batch/dtype.
template <class Record>
void check_case(const Record& record, const std::string& where) {
  parse_dtypes(record.dtype, where);
  const std::string_view name = record.case_name;
  size_t end = 0;
  for (const SharedText* id : {&record.model.id, &record.dataset.id, &record.decoder.id}) {
    if (name.compare(end, id->size(), *id) != 0 || end + id->size() >= name.size() ||
        name[end + id->size()] != '/') {
      refuse_record(where, fmt::format("'case' is '{}'", name),
                    fmt::format("it must begin '{}/{}/{}/'", record.model.id, record.dataset.id,
                                record.decoder.id));
    }
    end += id->size() + 1;
  }
}

void check_grade(const std::string& name, const char* more, const std::string& where) {
  if (std::ranges::find(grade_names(), name) != grade_names().end()) return;
  if (more != nullptr && name == more) return;
  std::vector<std::string> allowed(grade_names().begin(), grade_names().end());
  if (more != nullptr) allowed.emplace_back(more);
  throw unknown_name(where, "grade", name, allowed);
}

/// Rules that involve several fields.
struct JointRules {
  const std::string& where;

  void operator()(const Provenance& record) const {
    if (!record.config) return;
    const json required =
        record.config->value().value("/verify/required"_json_pointer, json::object());
    for (const json& grade : required) check_grade(grade.get<std::string>(), nullptr, where);
  }
  void operator()(const Run& record) const {
    if (record.exactness) check_grade(record.exactness->grade, "baseline", where);
    if (record.isolated) check_grade(record.isolated->grade, nullptr, where);
    check_case(record, where);
  }
  void operator()(const StreamRun& record) const { check_case(record, where); }
  void operator()(const Failure& record) const { check_case(record, where); }
  void operator()(const auto&) const {}
};

/// Reads a usual line straight into its record. Returns false if the line may be unusual.
bool read_usual(std::string_view line, Any& record, SharedTrees& trees) {
  const Kind* kind = likely_kind(line);
  if (kind == nullptr) return false;
  if (!read_object(line, kind->table(), kind->make(record), trees)) return false;
  const CommonFields& its = common_fields(record);
  if (its.kind != kind->name) return false;
  // In a record of any kind, members of other kinds keep their rules.
  return !its.other || std::ranges::none_of(
                           Unknown::table().info().fields,
                           [&](const FieldInfo& field) { return its.other->contains(field.name); });
}

}  // namespace

const RecordTable<Run>& Run::table() {
  static const auto table =
      with_case(RecordTable<Run>("run", "A run writes one for each case and round."))
          .add("round", &Run::round, "", "Number of the round, counted from 0.")
          .add("order", &Run::order, "", "Position of the decoder in the round, counted from 0.")
          .add("regions", &Run::regions, "",
               "Times of the regions `pad`, `h2d`, `features`, `encoder`, `decode`, `d2h`, "
               "`detokenize` and `confidence`, each summed over the batches.",
               0, {named_object<RegionTimes>("decode")})
          .add("total_seconds", &Run::total_seconds, "s",
               "Time from samples to text: the sum of the host times of all regions. In the mode "
               "`throughput`: the mean time of a pass, from the first sample to the last text.")
          .add("wall_seconds", &Run::wall_seconds, "s",
               "Time from samples to text by a second clock. It includes the time between regions.",
               kNotNegative)
          .add("cpu_seconds", &Run::cpu_seconds, "s",
               "CPU time of all threads of the process during `wall_seconds`. Threads that wait "
               "by spinning count too.",
               kNotNegative)
          .add("gap_seconds", &Run::gap_seconds, "s",
               "Time outside of all regions: `wall_seconds` - `total_seconds`.")
          .add("reference_seconds", &Run::reference_seconds, "s",
               "Audio of the utterances that have a reference.", kNotNegative)
          .add("metrics", &Run::metrics, "",
               "[Metrics](metrics.md) of the round, by name. Null: the value is not known.", 0,
               run_metrics())
          .add("wer", &Run::wer, "", "Word errors of all utterances that have a reference.")
          .add("oracle_wer", &Run::oracle_wer, "",
               "Word errors if the best text of each n-best list were chosen. Present if the "
               "decoder returns n-best lists.")
          .add("boosted", &Run::boosted, "",
               "Counts of recognised boosted words. Present if the decoder's options or the "
               "utterances list words to boost, even at a scale of 0.")
          .add("all_empty", &Run::all_empty, "",
               "True if no hypothesis has a token although a reference has words or, without "
               "references, some audio is louder than -40 dB. Tables mark the case `EMPTY`.")
          .add("wordless_speech", &Run::wordless_speech, "",
               "Parts that sound like speech and for which the decoder found no token. Absent if "
               "there are none.")
          .add("exactness", &Run::exactness, "",
               "Comparison of the results with the baseline's. Null: there is nothing to compare "
               "with, for example because the baseline failed.")
          .add("deterministic", &Run::deterministic, "",
               "True if the hypotheses equal those of the decoder's first round. In the mode "
               "`throughput`, all passes must agree too.")
          .add("hypotheses_sha256", &Run::hypotheses_sha256, "",
               "Hash of all hypotheses: tokens, frames, durations, the bits of the scores, and "
               "n-best lists.")
          .add("tokens_sha256", &Run::tokens_sha256, "",
               "Hash of the tokens, frames and durations of all hypotheses.")
          .add("counters", &Run::counters, "",
               "Counts of the decoder's work, such as `joint_calls`, summed over the batches.", 0,
               {named("host_reads", kNotNegative)})
          .add("batches", &Run::batches, "", "Audio and times of each batch.")
          .add("pipeline", &Run::pipeline, "",
               "Settings and times of overlapped passes. Present in the mode `throughput`.")
          .add("first_pass", &Run::first_pass, "",
               "Times of the first pass of the case. Present in the mode `throughput`, in the "
               "first record of the case that the process writes.")
          .add("isolated", &Run::isolated, "",
               "Comparison of overlapped passes with a pass region by region. Present in the mode "
               "`throughput` if `verify.isolated` is true.")
          .add("lengths", &Run::lengths, "",
               "Latencies for each length of utterance. Present if `datasets.seconds` lists "
               "several lengths and a batch has one utterance.")
          .add("bound_by", &Run::bound_by, "",
               "Busiest stage of the passes: `load`, `copy`, `encoder`, `decode` or `texts`. "
               "Present in the mode `throughput`.")
          .add("device_memory", &Run::device_memory, "",
               "GPU memory that the decoder uses. Present on a GPU.")
          .add("energy", &Run::energy, "",
               "Power of the GPU and length of the measurement. Present in round 0 on a GPU if "
               "`protocol.energy_seconds` is above 0. Null: not known.")
          .add("conditions", &Run::conditions, "", "State of the machine during the round.")
          .add("suspect", &Run::suspect, "",
               "Reasons to distrust the times: a throttle reason, `sm_clock` (mean clock below 75 "
               "% of the maximum), `cpu_wait` (above 10 % of the round) or `stopped` (above 1 %). "
               "Empty: none.")
          .add("shards", &Run::shards, "",
               "Times of each shard. Present in the merged record of several shards.");
  return table;
}

const RecordTable<Spread>& Spread::table() {
  static const auto table = RecordTable<Spread>("spread over rounds", "")
                                .add("mean", &Spread::mean, "x", "Mean over the rounds.")
                                .add("sd", &Spread::sd, "x", "Standard deviation over the rounds.")
                                .add("min", &Spread::min, "x", "Smallest value of a round.")
                                .add("max", &Spread::max, "x", "Largest value of a round.");
  return table;
}

const RecordTable<Summary>& Summary::table() {
  static const auto table =
      with_common_fields(
          RecordTable<Summary>(
              "summary",
              "A run writes one for each case after its last round. Tables, pages and "
              "exports do not read it, but sum up the records of kind `run` again."))
          .add("case", &Summary::case_name, "",
               "Name of the case: model/dataset/decoder/batch/dtype.")
          .add("result_key", &Summary::result_key, "",
               "Result key of the rounds that are summed up, as in their records.")
          .add("rounds", &Summary::rounds, "",
               "Number of rounds that have a value of `rtfx.total`.")
          .add("rtfx.total", &Summary::rtfx_total, "x",
               "RTFx from samples to text. Null: no round has a value that may be shown.")
          .add("rtfx.decode", &Summary::rtfx_decode, "x",
               "RTFx of the decoder alone. Null: no round has a value that may be shown.")
          .add("grade", &Summary::grade, "",
               "Worst grade of all rounds. Null: no round has a grade.")
          .add("deterministic", &Summary::deterministic, "",
               "True if all rounds have the same hypotheses.")
          .add("cv", &Summary::cv, "",
               "Coefficient of variation of `rtfx.total`: standard deviation / mean.")
          .add("noisy", &Summary::noisy, "", "True if `cv` exceeds `protocol.cv_max`.")
          .add(
              "stopped_by", &Summary::stopped_by, "",
              "Reason for which no further round ran. `rounds`: all requested or allowed rounds "
              "are done. `precision`: intervals are narrow enough. `budget`: the time is used up.");
  return table;
}

const RecordTable<Streamed>& Streamed::table() {
  static const auto table =
      RecordTable<Streamed>("streamed utterances", "")
          .add("utterances", &Streamed::utterances, "", "Number of utterances that ended.")
          .add("tokens", &Streamed::tokens, "",
               "Number of tokens of these utterances. Tables mark 0 with `NO TOKENS`, because "
               "equal empty results prove nothing.")
          .add("different", &Streamed::different, "",
               "Number of utterances whose result differs from that of the same utterance in one "
               "piece.")
          .add("first_difference", &Streamed::first_difference, "",
               "Id of the first utterance that differs. Null: none differs.");
  return table;
}

const RecordTable<EndpointRun>& EndpointRun::table() {
  static const auto table =
      RecordTable<EndpointRun>(
          "end of utterances",
          "The object describes one rule of `stream.endpoints`. Each recording is a stream, "
          "with `stream.silence` seconds of silence behind it. Delays are in seconds of "
          "audio, so the time of the computation does not count.")
          .add("rule", &EndpointRun::rule, "",
               "Rule that ends an utterance. `pause`: no word for some time. `token`: a token of "
               "the model. `vad`: no speech for some time, by a voice detector.")
          .add("seconds", &EndpointRun::seconds, "s",
               "Time without a word (`pause`) or without speech (`vad`) after which the rule ends "
               "an utterance. Null for `token`.")
          .add("ends", &EndpointRun::ends, "",
               "Number of utterances with words that the rule ended.")
          .add("early", &EndpointRun::early, "",
               "Number of these utterances that ended too early, because the recording has more "
               "words after them.")
          .add("missed", &EndpointRun::missed, "",
               "Number of recordings whose last words became final only at the end of the stream.")
          .add("delay_seconds", &EndpointRun::delay_seconds, "s",
               "Mean delay from the end of an utterance's last word until its text was final. "
               "Null: the rule ended no utterance.")
          .add("delay_p50_seconds", &EndpointRun::delay_p50_seconds, "s", "Median of this delay.")
          .add("delay_p95_seconds", &EndpointRun::delay_p95_seconds, "s",
               "95th percentile of this delay.");
  return table;
}

const RecordTable<LostWords>& LostWords::table() {
  static const auto table =
      RecordTable<LostWords>(
          "lost words",
          "The words of each stream are aligned with those of the whole utterance, with the "
          "fewest edits. A word is at a seam if it is at most `seam_seconds` from a border "
          "between two steps of the stream.")
          .add("words", &LostWords::words, "",
               "Number of words in the results of whole utterances.")
          .add("lost", &LostWords::lost, "",
               "Number of these words that have no counterpart in the stream. A word that is "
               "replaced by another one is not lost.")
          .add("lost_at_seams", &LostWords::lost_at_seams, "",
               "Number of lost words that are at a seam.")
          .add("share_at_seams", &LostWords::share_at_seams, "",
               "Share of all `words` that are at a seam, for comparison. Null: there are no words.")
          .add("seam_seconds", &LostWords::seam_seconds, "s",
               "Largest distance from a border at which a word counts as at a seam.");
  return table;
}

const RecordTable<StreamedQuality>& StreamedQuality::table() {
  static const auto table =
      RecordTable<StreamedQuality>(
          "quality of streams",
          "Delays, lag and `changed_share` are present with the scope `speech` if "
          "`stream.partial` is true. They are in audio time, so the time of the computation "
          "does not count.")
          .add("streamed", &StreamedQuality::streamed, "",
               "Word errors of the streamed utterances.")
          .add("whole", &StreamedQuality::whole, "",
               "Word errors of the same decoder on whole utterances, which the encoder takes in "
               "one piece.")
          .add("difference", &StreamedQuality::difference, "",
               "Word error rate of the streams minus that of whole utterances. 0.01 is one "
               "percentage point.")
          .add("low", &StreamedQuality::low, "",
               "Lower end of the 95 % interval of `difference`, by a bootstrap over utterances. "
               "Null: a single utterance has reference words.")
          .add("high", &StreamedQuality::high, "",
               "Upper end of this interval. Null: as for `low`.")
          .add("first_delay_seconds", &StreamedQuality::first_delay_seconds, "s",
               "Mean delay from the end of an utterance's first token until it is shown. Null: no "
               "token was shown.")
          .add("lag_seconds", &StreamedQuality::lag_seconds, "s",
               "Mean time from the end of the last shown token to the newest audio, over all "
               "updates. Null: no token was shown.")
          .add("lag_p95_seconds", &StreamedQuality::lag_p95_seconds, "s",
               "95th percentile of this time over all updates. Null: no token was shown.")
          .add("changed_share", &StreamedQuality::changed_share, "",
               "Share of the shown tokens that a later text of the utterance no longer has. Null: "
               "no token was shown.")
          .add("lost_words", &StreamedQuality::lost_words, "",
               "Words of whole utterances that the streams lack.");
  return table;
}

const RecordTable<StreamRun>& StreamRun::table() {
  static const auto table =
      with_case(RecordTable<StreamRun>(
                    "stream", "`rtfx stream` writes one for each decoder and number of streams."))
          .add("stream", &StreamRun::stream, "", "Settings of the streams, with all defaults.", 0,
               {named("scope", kText), named("slo_ms", kNumber)})
          .add("requests", &StreamRun::requests, "",
               "Number of requests that arrived after the discarded first part of the trial.")
          .add("batches", &StreamRun::batches, "", "Number of batches that served these requests.")
          .add("stable", &StreamRun::stable, "",
               "True if the queue time grew by at most 0.01 seconds per second. Tables mark other "
               "cases `OVERLOADED`.")
          .add("slo", &StreamRun::slo, "",
               "True if the limit is kept: `slo_ms` with a stable queue, or the `rule`. Null: no "
               "limit was set.")
          .add("confirms", &StreamRun::confirms, "",
               "True in a long trial, which confirms a number of streams, and false in a short "
               "trial. Present with `stream.rule`.")
          .add("metrics", &StreamRun::metrics, "",
               "Figures of the requests by name, among them [metrics](metrics.md). A latency has "
               "its mean, `.p50`, `.p95`, `.p99` and `.max`.")
          .add("streamed", &StreamRun::streamed, "",
               "Comparison of the results with those of the same encoder and search on utterances "
               "in one piece.")
          .add("quality", &StreamRun::quality, "",
               "Word errors when the whole dataset is streamed. Present with `stream.quality` and "
               "in trials that confirm, if the dataset has texts.")
          .add("endpoints", &StreamRun::endpoints, "",
               "Delays of each rule of `stream.endpoints`. Present with `stream.quality` and in "
               "trials that confirm.");
  return table;
}

const RecordTable<Failure>& Failure::table() {
  static const auto table =
      with_case(
          RecordTable<Failure>(
              "failure",
              "A failure says why a case could not be measured. With `isolate`, it also stands for "
              "a "
              "case whose process ended unexpectedly or exceeded `protocol.case_limit_seconds`."))
          .add("stage", &Failure::stage, "",
               "Work that failed: `load` (reading audio), `prepare`, `encoder`, `decode`, `pass` "
               "(overlapped batches), `verify`, `energy` or `stream`.")
          .add("message", &Failure::message, "", "Error message.");
  return table;
}

const RecordTable<Build>& Build::table() {
  static const auto table =
      RecordTable<Build>("build", "")
          .add("version", &Build::version, "", "Version of rtfx, such as `0.1.0`.")
          .add("revision", &Build::revision, "",
               "First 12 digits of the Git commit of the sources. Empty outside of a Git checkout.")
          .add("dirty", &Build::dirty, "", "True if the sources differed from this commit.")
          .add("build_type", &Build::build_type, "", "Build type of CMake, such as `Release`.")
          .add("compiler", &Build::compiler, "", "Name and version of the compiler.")
          .add("sanitizer", &Build::sanitizer, "",
               "True if the program was built with a sanitizer, which slows it down.");
  return table;
}

const RecordTable<Device>& Device::table() {
  static const auto table =
      RecordTable<Device>("device", "")
          .add("type", &Device::type, "", "Type of the device: `cpu` or `cuda`.")
          .add("name", &Device::name, "", "Product name of the device.")
          .add("memory_bytes", &Device::memory_bytes, "byte",
               "Memory of the GPU. Absent for a CPU.")
          .add("multiprocessors", &Device::multiprocessors, "",
               "Number of multiprocessors of the GPU. Absent for a CPU.")
          .add("capability", &Device::capability, "",
               "CUDA compute capability of the GPU, such as `9.0`. Absent for a CPU.")
          .add("uuid", &Device::uuid, "", "Unique id of the GPU. Absent for a CPU.");
  return table;
}

const RecordTable<Affinity>& Affinity::table() {
  static const auto table =
      RecordTable<Affinity>("affinity", "These are the CPUs that the process may use.")
          .add("cpus", &Affinity::cpus, "", "Number of logical CPUs.")
          .add("list", &Affinity::list, "", "Numbers of these CPUs, as ranges such as `0-3,8`.");
  return table;
}

const RecordTable<GroupLimits>& GroupLimits::table() {
  static const auto table =
      RecordTable<GroupLimits>(
          "group limits",
          "These are limits of the control group (cgroup) of the process. Null: there is no "
          "such limit.")
          .add("cpus", &GroupLimits::cpus, "",
               "CPU time that the processes of the group may use, in CPUs.")
          .add("memory_bytes", &GroupLimits::memory_bytes, "byte",
               "Memory that the processes of the group may use.");
  return table;
}

const RecordTable<Cpu>& Cpu::table() {
  static const auto table =
      RecordTable<Cpu>("cpu", "")
          .add("model", &Cpu::model, "", "Product name of the CPU.")
          .add("family", &Cpu::family, "", "CPU family, a number of the vendor.")
          .add("model_number", &Cpu::model_number, "",
               "Model number within the family. It distinguishes CPUs of cloud machines that "
               "share a product name.")
          .add("stepping", &Cpu::stepping, "", "Revision of the CPU model (stepping).")
          .add("cache_kib", &Cpu::cache_kib, "KiB", "Cache size that `/proc/cpuinfo` reports.")
          .add("clock_mhz", &Cpu::clock_mhz, "MHz",
               "Highest clock rate of the CPU. Absent if the kernel does not report it.")
          .add("hypervisor", &Cpu::hypervisor, "",
               "Signature of the hypervisor, such as `KVMKVMKVM`. Null: there is none.")
          .add("calibration_ms", &Cpu::calibration_ms, "ms",
               "Shortest of 15 times of a fixed chain of integer operations on one CPU. It shows "
               "differences in speed between CPUs that share a name.")
          .add("cores", &Cpu::cores, "", "Number of logical CPUs of the machine.")
          .add("threads", &Cpu::threads, "", "Number of threads that LibTorch uses.")
          .add("wait_policy", &Cpu::wait_policy, "",
               "Setting that says how idle threads of OpenMP wait, such as `passive`.")
          .add("affinity", &Cpu::affinity, "", "CPUs that the process may use.")
          .add("load_average", &Cpu::load_average, "",
               "Load average of the machine over the last minute. Null: not known.")
          .add("group_limits", &Cpu::group_limits, "",
               "Limits of the control group of the process.");
  return table;
}

const RecordTable<ModelFile>& ModelFile::table() {
  static const auto table =
      RecordTable<ModelFile>("model file", "")
          .add("id", &ModelFile::id, "", "Id of the model in the configuration.")
          .add("path", &ModelFile::path, "", "Path of the checkpoint.")
          .add("format", &ModelFile::format, "", "Format of the checkpoint, such as `NeMo 2.7.3`.")
          .add("kind", &ModelFile::kind, "",
               "Kind of model: `rnnt`, `multiblank`, `tdt` or `ctc`. A hybrid of a transducer and "
               "CTC has the kind of its transducer.")
          .add("sha256", &ModelFile::sha256, "", "SHA-256 of the checkpoint.")
          .add("stand_in", &ModelFile::stand_in, "",
               "Origin of a checkpoint that stands in for another one, and how it was made. Null: "
               "it was trained.")
          .add("parameters", &ModelFile::parameters, "", "Number of trainable parameters.")
          .add("notices", &ModelFile::notices, "",
               "Messages about the checkpoint, for example where the file and its settings "
               "disagree.");
  return table;
}

const RecordTable<DatasetFile>& DatasetFile::table() {
  static const auto table =
      RecordTable<DatasetFile>("dataset file", "")
          .add("id", &DatasetFile::id, "", "Id of the dataset in the configuration.")
          .add("path", &DatasetFile::path, "",
               "Path of the manifest, the LibriSpeech folder or the first audio file.")
          .add("stand_in", &DatasetFile::stand_in, "",
               "Description of the audio that stands in for the dataset. Null: the dataset itself "
               "was used.")
          .add("utterances", &DatasetFile::utterances, "", "Number of utterances.")
          .add("audio_seconds", &DatasetFile::audio_seconds, "s",
               "Length of the audio of all utterances.")
          .add("load_seconds", &DatasetFile::load_seconds, "s",
               "Time to read, mix and resample the audio files before the passes. RTFx leaves it "
               "out.")
          .add("sha256", &DatasetFile::sha256, "",
               "Hash of the manifest, or of the names and sizes of the audio files.")
          .add("notices", &DatasetFile::notices, "",
               "Messages about the audio, for example that files were resampled.");
  return table;
}

const RecordTable<ShardDevices>& ShardDevices::table() {
  static const auto table =
      RecordTable<ShardDevices>("shards", "")
          .add("count", &ShardDevices::count, "", "Number of processes.")
          .add("devices", &ShardDevices::devices, "", "Device of each process.");
  return table;
}

const RecordTable<Provenance>& Provenance::table() {
  static const auto table =
      with_common_fields(
          RecordTable<Provenance>(
              "provenance",
              "Each invocation writes one. It describes the program, the machine and the inputs."))
          .add("name", &Provenance::name, "", "Name of the configuration.")
          .add("question", &Provenance::question, "",
               "Question that the run answers, as the configuration states it.")
          .add("config", &Provenance::config, "", "Configuration with all defaults.", 0,
               config_members())
          .add("config_hash", &Provenance::config_hash, "",
               "Hash of the configuration without `name`, `question`, `output`, `protocol`, "
               "`tune` and `isolate`.")
          .add("rtfx", &Provenance::rtfx, "", "Build of rtfx.")
          .add("libtorch", &Provenance::libtorch, "", "Version of LibTorch.")
          .add("cuda_runtime", &Provenance::cuda_runtime, "",
               "Version of the CUDA runtime. Null on a CPU.")
          .add("cuda_driver", &Provenance::cuda_driver, "",
               "Newest version of CUDA that the driver supports. Null on a CPU.")
          .add("cudnn", &Provenance::cudnn, "", "Version of cuDNN as one number. Null on a CPU.")
          .add("device", &Provenance::device, "", "Device of all cases.")
          .add("cpu", &Provenance::cpu, "",
               "CPUs of the machine, and those that the process may use.")
          .add("host_name", &Provenance::host_name, "", "Name of the machine.")
          .add("host_os", &Provenance::host_os, "",
               "Operating system of the machine, with the version of its kernel.")
          .add("tf32", &Provenance::tf32, "",
               "True if LibTorch's matrix products may round fp32 inputs to TF32.")
          .add("models", &Provenance::models, "", "Models of the run.")
          .add("datasets", &Provenance::datasets, "", "Datasets of the run.")
          .add("decoder_files", &Provenance::decoder_files, "",
               "SHA-256 of each file that an option of a decoder names, by its path.")
          .add("shards", &Provenance::shards, "",
               "Processes of the run and their devices. Present if there are several (`--shard`).")
          .add("imported_from", &Provenance::imported_from, "",
               "File of Nsight Systems from which `rtfx profile import` read the profile.");
  return table;
}

const RecordTable<KernelRuns>& KernelRuns::table() {
  static const auto table =
      RecordTable<KernelRuns>(
          "runs of a kernel",
          "The object describes the runs of a kernel, the calls of a CUDA function, or the "
          "kernels that a segment launched.")
          .add("name", &KernelRuns::name, "",
               "Name of the kernel, function or segment. Kernels lack template arguments, but "
               "rtfx's own kernels keep the first one.")
          .add("count", &KernelRuns::count, "", "Number of runs or calls.")
          .add("total_seconds", &KernelRuns::total_seconds, "s", "Time of all runs together.")
          .add("mean_seconds", &KernelRuns::mean_seconds, "s", "Mean time of a run.")
          .add("min_seconds", &KernelRuns::min_seconds, "s", "Time of the shortest run.")
          .add("max_seconds", &KernelRuns::max_seconds, "s", "Time of the longest run.")
          .add("share", &KernelRuns::share, "",
               "Share of the region's `kernel_seconds`. Present in `top_kernels`.");
  return table;
}

const RecordTable<BusyShare>& BusyShare::table() {
  static const auto table =
      RecordTable<BusyShare>("busy share",
                             "The ends of the 95 % interval follow from the spread over laps.")
          .add("share", &BusyShare::share, "",
               "Mean of `lap_kernel_seconds` / mean of `undisturbed_seconds`.")
          .add("low", &BusyShare::low, "",
               "Lower end of the interval. Null: not known, for example because there is one lap.")
          .add("high", &BusyShare::high, "", "Upper end of the interval. Null: not known.");
  return table;
}

const RecordTable<ProfiledRegion>& ProfiledRegion::table() {
  using R = ProfiledRegion;
  static const auto table =
      RecordTable<R>("profiled region",
                     "Numbers are sums over all batches and laps with the collector. A list has an "
                     "entry for each lap. Figures of a GPU are null if none were collected.")
          .add("wall_seconds", &R::wall_seconds, "s",
               "Time from the beginning of the region to its end, when the device is idle.")
          .add("lap_seconds", &R::lap_seconds, "s", "Time of the region in each lap.")
          .add("undisturbed_seconds", &R::undisturbed_seconds, "s",
               "Time of the region in each lap of an earlier process, which ran without the "
               "collector. Null for a phase.")
          .add("lap_kernel_seconds", &R::lap_kernel_seconds, "s",
               "Time in each lap in which at least one kernel ran. Null: the kernels of a CUDA "
               "graph are not known.")
          .add("busy", &R::busy, "",
               "Measured share of the time in which a kernel runs. It may exceed 1, since the "
               "collector lengthens kernels. Tables and figures show at most 1, and lower the "
               "lower end of the interval. Null: not known.")
          .add("gpu.busy", &R::gpu_busy, "",
               "Share of `wall_seconds` in which at least one kernel runs. Null: the kernels of a "
               "CUDA graph are not known.")
          .add("gpu.idle", &R::gpu_idle, "",
               "Share of `wall_seconds` in which no kernel runs: 1 - `gpu.busy`.")
          .add("gpu.busy_with_copies", &R::gpu_busy_with_copies, "",
               "Share of `wall_seconds` in which a kernel, memory copy or memset runs.")
          .add("gpu.idle_with_copies", &R::gpu_idle_with_copies, "",
               "Share of `wall_seconds` in which no kernel, memory copy or memset runs.")
          .add("gpu.starved", &R::gpu_starved, "",
               "Share of `wall_seconds` in which the device waits for the host: no kernel, copy "
               "or memset runs, and no CUDA graph is under way.")
          .add("gpu.idle_launch", &R::gpu_idle_launch, "",
               "Idle share estimated from launches: 1 - mean kernel time / mean interval between "
               "launches, at least 0. Null with CUDA graphs.")
          .add("kernels", &R::kernels, "", "Number of kernels that ran.")
          .add("graph_kernels", &R::graph_kernels, "",
               "Number of kernels that CUDA graphs started. Some versions of CUPTI report a loop "
               "inside a graph only once, and `gpu.busy` is then too small.")
          .add("kernel_seconds", &R::kernel_seconds, "s", "Sum of the times of all kernels.")
          .add("kernel_mean_seconds", &R::kernel_mean_seconds, "s", "Mean time of a kernel.")
          .add("launches", &R::launches, "", "Number of calls that launch a kernel.")
          .add("graph_launches", &R::graph_launches, "",
               "Number of calls that launch a CUDA graph.")
          .add("copies", &R::copies, "", "Number of memory copies and memsets.")
          .add("copied_bytes", &R::copied_bytes, "byte",
               "Number of bytes in these copies and memsets.")
          .add("synchronizations", &R::synchronizations, "",
               "Number of calls that wait for the device. The wait of rtfx at the end of a region "
               "does not count.")
          .add("synchronization_seconds", &R::synchronization_seconds, "s", "Time of these calls.")
          .add("longest_gap_seconds", &R::longest_gap_seconds, "s",
               "Longest time without a kernel, copy or memset.")
          .add("top_kernels", &R::top_kernels, "", "Kernels with the largest total time.")
          .add("top_calls", &R::top_calls, "",
               "CUDA functions in which the host spent most time. Calls inside other calls do not "
               "count.");
  return table;
}

const RecordTable<Profile>& Profile::table() {
  static const auto table =
      with_case(
          RecordTable<Profile>(
              "profile",
              "`rtfx profile` writes one for each case. An imported profile knows only what the "
              "name of its case says."))
          .add("laps", &Profile::laps, "", "Number of laps: recorded passes over the dataset.")
          .add("gpu_figures", &Profile::gpu_figures, "",
               "Source of the GPU figures: `cupti` or `nsight_systems`. Null: there are none, and "
               "`remarks` says why.")
          .add("graph_trace", &Profile::graph_trace, "",
               "Detail in which CUDA graphs are recorded. `node`: every kernel. `graph`: the "
               "whole graph as one kernel. Null: there are no GPU figures.")
          .add("collector", &Profile::collector, "",
               "Version and file of the collector, and the features that it refused.")
          .add("dropped_records", &Profile::dropped_records, "",
               "Number of records that the collector lost. Null: not known.")
          .add("records_without_time", &Profile::records_without_time, "",
               "Number of records that had no time. Null: not known.")
          .add("valid", &Profile::valid, "",
               "True if the profile is complete: no record was lost, and all have times.")
          .add("remarks", &Profile::remarks, "",
               "Reasons why figures are missing, and notes on stand-ins.")
          .add("regions", &Profile::regions, "",
               "Figures of each region and of each phase, such as `decode.loop`.")
          .add("segments", &Profile::segments, "",
               "Kernels by the segment of host code that launched them. Kernels of a CUDA graph "
               "belong to the segment that launches it. Only with CUPTI.");
  return table;
}

const RecordTable<DeviceLimits>& DeviceLimits::table() {
  static const auto table =
      RecordTable<DeviceLimits>(
          "limits", "The limits follow from the attributes of the GPU at its highest clocks.")
          .add("bytes_per_second", &DeviceLimits::bytes_per_second, "byte/s",
               "Highest data rate of the memory.")
          .add("vector_flop_per_second", &DeviceLimits::vector_flop_per_second, "FLOP/s",
               "Highest rate of the vector units, in fp32.")
          .add("matrix_flop_per_second", &DeviceLimits::matrix_flop_per_second, "FLOP/s",
               "Highest rate of the matrix units, for dense bf16 and fp16. Null: not known.");
  return table;
}

const RecordTable<CountedKernel>& CountedKernel::table() {
  static const auto table =
      RecordTable<CountedKernel>("counted kernel", "Figures are means over the counted launches.")
          .add("part", &CountedKernel::part, "",
               "Phase or segment that launched the kernel. Empty: none.")
          .add("name", &CountedKernel::name, "", "Name of the kernel.")
          .add("count", &CountedKernel::count, "", "Number of counted launches.")
          .add("seconds", &CountedKernel::seconds, "s", "Time of a launch.")
          .add("bytes", &CountedKernel::bytes, "byte",
               "Number of bytes that a launch reads from memory and writes to it.")
          .add("l2_bytes", &CountedKernel::l2_bytes, "byte",
               "Number of bytes that a launch moves between the L2 cache and the multiprocessors.")
          .add("flop", &CountedKernel::flop, "FLOP",
               "Number of floating-point operations of a launch. Products in fp8 are not counted.")
          .add("shares", &CountedKernel::shares, "",
               "Share of each limit that the kernel reaches: `memory`, `l2`, `vector` and "
               "`matrix`.")
          .add("share", &CountedKernel::share, "", "Largest of these shares.")
          .add("bound", &CountedKernel::bound, "",
               "Limit with the largest share: `memory`, `L2`, `vector units` or `matrix units`.");
  return table;
}

const RecordTable<OperatorCost>& OperatorCost::table() {
  static const auto table =
      RecordTable<OperatorCost>(
          "operator",
          "The figures are sums over all calls in a lap. CUDA graphs and rtfx's own kernels "
          "are no operators.")
          .add("name", &OperatorCost::name, "", "Name of the operator, such as `aten::addmm`.")
          .add("count", &OperatorCost::count, "", "Number of calls.")
          .add("bytes", &OperatorCost::bytes, "byte",
               "Number of bytes of all inputs and outputs, each counted once.")
          .add("flop", &OperatorCost::flop, "FLOP", "Number of floating-point operations.")
          .add(
              "least_seconds", &OperatorCost::least_seconds, "s",
              "Shortest time that the limits of the device allow. Null: the limits are not known.");
  return table;
}

const RecordTable<Roofline>& Roofline::table() {
  static const auto table =
      with_case(
          RecordTable<Roofline>("roofline", "`rtfx profile --roofline` writes one for each case."))
          .add("region", &Roofline::region, "", "Name of the region, such as `decode`.")
          .add("laps", &Roofline::laps, "",
               "Number of laps: passes over the dataset whose time was measured.")
          .add("seconds", &Roofline::seconds, "s", "Mean time of the region in a lap.")
          .add("limits", &Roofline::limits, "", "Limits of the device. Null: not known.")
          .add("remarks", &Roofline::remarks, "", "Reasons why figures are missing.")
          .add("least_seconds", &Roofline::least_seconds, "s",
               "Sum of the operators' `least_seconds`. Null with the source `ncu`, or if the "
               "limits are not known.")
          .add("share", &Roofline::share, "",
               "Share of its limits that the region reaches: `least_seconds` / `seconds`. Null: "
               "not known.")
          .add("source", &Roofline::source, "",
               "Source of the figures. `ncu`: Nsight Compute counted `kernels`. `reckoned`: the "
               "cost of `operators` was computed from the shapes of their tensors.")
          .add("kernels", &Roofline::kernels, "",
               "Counted kernels. There is an entry for each kernel and each phase or segment that "
               "launched it.")
          .add("operators", &Roofline::operators, "",
               "Operators of LibTorch that ran in the region in a lap.");
  return table;
}

const RecordTable<Unknown>& Unknown::table() {
  static const auto table = with_common_fields(RecordTable<Unknown>("unknown", ""))
                                .add("result_key", &Unknown::result_key, "", "")
                                .add("round", &Unknown::round, "", "")
                                .add("deterministic", &Unknown::deterministic, "", "")
                                .add("suspect", &Unknown::suspect, "", "");
  return table;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> list = {kind_of<Provenance>("provenance", "journal.jsonl"),
                                         kind_of<Run>("run", "journal.jsonl"),
                                         kind_of<Summary>("summary", "journal.jsonl"),
                                         kind_of<StreamRun>("stream", "journal.jsonl"),
                                         kind_of<Failure>("failure", "journal.jsonl"),
                                         kind_of<Profile>("profile", "profile.jsonl"),
                                         kind_of<Roofline>("roofline", "roofline.jsonl")};
  return list;
}

const Kind* find_kind(std::string_view name) {
  const auto found = std::ranges::find(kinds(), name, &Kind::name);
  return found == kinds().end() ? nullptr : &*found;
}

Any read(const json& object) {
  Any record;
  if (const Kind* kind = find_kind(object.value("kind", ""))) {
    read_object(object, kind->table(), kind->make(record));
  } else {
    read_object(object, Unknown::table().core(), &std::get<Unknown>(record));
  }
  return record;
}

Any read_line(std::string_view line, const std::string& where, SharedTrees& trees) {
  constexpr const char* kRemedy = "the journal was edited or damaged";
  Any record;
  if (read_usual(line, record, trees)) {
    std::visit(JointRules{where}, record);
    return record;
  }
  const json object = parse_json(line, where, kRemedy);
  if (!object.is_object()) throw UserError(where, "not a JSON object", kRemedy);
  check_record(object, where);
  return read(object);
}

void check_record(const json& object, const std::string& where) {
  check_object(object, Unknown::table().info(), where);
  if (const Kind* kind = find_kind(object.value("kind", "")))
    check_object(object, kind->info(), where);
  const Any record = read(object);
  std::visit(JointRules{where}, record);
}

const Figures& metrics(const Round& round) {
  return std::visit([](const auto& one) -> const Figures& { return one.metrics; }, round);
}

int64_t number_of(const Round& round) {
  const auto* run = std::get_if<Run>(&round);
  return run == nullptr ? 0 : run->round;
}

const std::vector<std::string>* suspect_reasons(const Round& round) {
  const auto* run = std::get_if<Run>(&round);
  return run != nullptr && run->suspect ? &*run->suspect : nullptr;
}

bool is_suspect(const Round& round) {
  const std::vector<std::string>* reasons = suspect_reasons(round);
  return reasons != nullptr && !reasons->empty();
}

}  // namespace rtfx::record
