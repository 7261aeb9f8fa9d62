#include "harness/results/records.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "harness/scoring/exactness.h"
#include "models/dtypes.h"

namespace rtfx::record {
namespace {

using nlohmann::json;

template <class Record>
RecordTable<Record> with_head(RecordTable<Record>&& table) {
  return std::move(table)
      .group("every record")
      .add("kind", &Record::kind, "", "the kind of the record")
      .add("schema", &Record::schema, "", "version of this format: 1")
      .add("provenance_id", &Record::provenance_id, "", "id of the provenance it belongs to")
      .add("started", &Record::started, "", "time in UTC, ISO 8601")
      .add("profiled", &Record::profiled, "",
           "true in the files of `rtfx profile`, so that tables and reports refuse them")
      .group("");
}

template <class Record>
RecordTable<Record> with_case(RecordTable<Record>&& table) {
  return with_head(std::move(table))
      .group("a case")
      .add("case", &Record::case_name, "", "model/dataset/decoder/batch/dtype")
      .add("result_key", &Record::result_key, "",
           "hash of all that the result depends on; `--resume` continues a case with it")
      .add("model", &Record::model, "", "the model of the case")
      .add("dataset", &Record::dataset, "", "the dataset of the case")
      .add("decoder", &Record::decoder, "", "the decoder of the case")
      .add("batch", &Record::batch, "", "the batch rule of the case")
      .add("dtype", &Record::dtype, "",
           "number type of encoder and decoder; `bf16+fp32` has an encoder in bf16 and a decoder "
           "in fp32, and `fp8` an encoder in fp8 and a decoder in bf16")
      .add("device", &Record::device, "", "the device, such as `cuda:0`")
      .group("");
}

FieldInfo named(std::string name, unsigned types, std::vector<FieldInfo> elements) {
  FieldInfo info = rtfx::named(std::move(name), types);
  info.elements = std::move(elements);
  return info;
}
using rtfx::named;

/// A member that must be there and has a table.
template <class Record>
FieldInfo named_object(std::string name) {
  FieldInfo info = detail::field_of(detail::kSlotType<Record>);
  info.name = std::move(name);
  return info;
}

std::vector<FieldInfo> run_metrics() {
  std::vector<FieldInfo> list;
  for (const char* name : {"rtfx.total", "rtfx.encode_decode", "rtfx.decode"})
    list.push_back(named(name, kPositive | kNull, /*required=*/true));
  for (const char* name : {"rtfx.first_pass", "batch_ms.first"})
    list.push_back(named(name, kPositive | kNull));
  for (const char* name : {"tokens.per_second", "tokens.reference_per_second"})
    list.push_back(named(name, kNotNegative | kNull));
  list.push_back(named("share.decode", kNumber | kNull, /*required=*/true));
  for (const char* name :
       {"batch_ms.p50", "batch_ms.p95", "batch_ms.p99", "energy.joules_per_hour"})
    list.push_back(named(name, kPositive | kNull));
  for (const char* name : {"memory.kept_mib", "memory.peak_mib", "busy.load", "busy.copy",
                           "busy.encoder", "busy.decode", "busy.texts"})
    list.push_back(named(name, kNotNegative | kNull));
  return list;
}

/// The parts of a configuration that readers of a journal use.
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

/// The value of the first member "kind" in the line that is one of kinds(): most likely that of the
/// whole record.
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

/// Comparisons take the name apart: model/dataset/decoder/batch/dtype.
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

/// The rules that join several fields.
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

/// Reads a line that is as most are, straight into its record. False where it may be none.
bool read_usual(std::string_view line, Any& record, SharedTrees& trees) {
  const Kind* kind = likely_kind(line);
  if (kind == nullptr) return false;
  if (!read_object(line, kind->table(), kind->make(record), trees)) return false;
  const Head& its = head(record);
  if (its.kind != kind->name) return false;
  // Members of other kinds have rules in a record of any kind.
  return !its.other || std::ranges::none_of(
                           Unknown::table().info().fields,
                           [&](const FieldInfo& field) { return its.other->contains(field.name); });
}

}  // namespace

const RecordTable<Run>& Run::table() {
  static const auto table =
      with_case(RecordTable<Run>("run", "There is one per case and round."))
          .add("round", &Run::round, "", "number of the round, from 0")
          .add("order", &Run::order, "", "place of the decoder within the round")
          .add("regions", &Run::regions, "",
               "times of `pad`, `h2d`, `features`, `encoder`, `decode`, `d2h`, `detokenize` and "
               "`confidence`",
               0, {named_object<RegionTimes>("decode")})
          .add("total_seconds", &Run::total_seconds, "s",
               "sum of the host times of all regions; in mode `throughput` the time from the first "
               "sample to the last text")
          .add("wall_seconds", &Run::wall_seconds, "s",
               "the same time by a second clock, with the time between regions", kNotNegative)
          .add("cpu_seconds", &Run::cpu_seconds, "s",
               "CPU time of all threads, also of threads that spin", kNotNegative)
          .add("gap_seconds", &Run::gap_seconds, "s",
               "`wall_seconds` - `total_seconds`: time in no region")
          .add("metrics", &Run::metrics, "",
               "the [metrics](metrics.md) that a round has; null: not known", 0, run_metrics())
          .add("wer", &Run::wer, "", "word errors of all utterances with a reference")
          .add("oracle_wer", &Run::oracle_wer, "", "where the decoder returns n-best lists")
          .add("boosted", &Run::boosted, "",
               "where the decoder's options list words to boost, also at a scale of 0")
          .add("all_empty", &Run::all_empty, "",
               "true where no hypothesis has a token though references have words, or without "
               "references though there is sound above -40 dB; the mark is `EMPTY`")
          .add("wordless_speech", &Run::wordless_speech, "",
               "where the decoder found no word for 8 s or more although somebody speaks")
          .add("exactness", &Run::exactness, "", "null where there is nothing to compare with")
          .add("deterministic", &Run::deterministic, "",
               "whether the hypotheses equal those of the decoder's first round")
          .add("hypotheses_sha256", &Run::hypotheses_sha256, "",
               "hash of tokens, frames, durations, the bits of scores, and n-best lists")
          .add("tokens_sha256", &Run::tokens_sha256, "", "hash of tokens, frames and durations")
          .add("counters", &Run::counters, "", "counts of the decoder, such as `joint_calls`", 0,
               {named("host_reads", kNotNegative)})
          .add("batches", &Run::batches, "", "audio and times of each batch")
          .add("pipeline", &Run::pipeline, "", "in mode `throughput`")
          .add("first_pass", &Run::first_pass, "",
               "in mode `throughput`, in the first record of the case by its process")
          .add("isolated", &Run::isolated, "",
               "in mode `throughput`, where `verify.isolated` is true")
          .add("lengths", &Run::lengths, "",
               "latencies by length, where `datasets.seconds` is a list and batches have one "
               "utterance")
          .add("bound_by", &Run::bound_by, "", "in mode `throughput`: the busiest stage")
          .add("device_memory", &Run::device_memory, "", "on a GPU")
          .add("energy", &Run::energy, "",
               "in round 0, where `protocol.energy_seconds` is above 0; null: not known")
          .add("conditions", &Run::conditions, "", "the machine during the round")
          .add("suspect", &Run::suspect, "",
               "reasons to distrust the times: `sm_clock` (mean below 75 % of the device's "
               "maximum), a throttle reason, `cpu_wait` (over 10 % of the round), or `stopped` "
               "(over 1 % of the round; delays of up to 0.25 s do not count)")
          .add("shards", &Run::shards, "", "in the record of the whole of several shards");
  return table;
}

const RecordTable<Spread>& Spread::table() {
  static const auto table = RecordTable<Spread>("spread over rounds", "")
                                .add("mean", &Spread::mean, "x", "mean")
                                .add("sd", &Spread::sd, "x", "standard deviation")
                                .add("min", &Spread::min, "x", "least")
                                .add("max", &Spread::max, "x", "greatest");
  return table;
}

const RecordTable<Summary>& Summary::table() {
  static const auto table =
      with_head(RecordTable<Summary>(
                    "summary",
                    "There is one per case after its last round, for the eye: tables, pages and "
                    "exports sum up the records of kind `run` again."))
          .add("case", &Summary::case_name, "", "model/dataset/decoder/batch/dtype")
          .add("result_key", &Summary::result_key, "", "as in the case's records of kind `run`")
          .add("rounds", &Summary::rounds, "", "rounds that have an RTFx")
          .add("rtfx.total", &Summary::rtfx_total, "x", "null where it may not be shown")
          .add("rtfx.decode", &Summary::rtfx_decode, "x", "null where it may not be shown")
          .add("grade", &Summary::grade, "", "worst grade of all rounds")
          .add("deterministic", &Summary::deterministic, "", "whether all rounds agree")
          .add("cv", &Summary::cv, "", "sd / mean of `rtfx.total`")
          .add("noisy", &Summary::noisy, "", "whether that exceeds `protocol.cv_max`")
          .add("stopped_by", &Summary::stopped_by, "", "`rounds`, `precision` or `budget`");
  return table;
}

const RecordTable<Streamed>& Streamed::table() {
  static const auto table =
      RecordTable<Streamed>("streamed utterances", "")
          .add("utterances", &Streamed::utterances, "", "utterances that ended")
          .add("tokens", &Streamed::tokens, "",
               "their tokens; 0 has the mark `NO TOKENS`, since equality then shows nothing")
          .add("different", &Streamed::different, "",
               "utterances that differ from the same one in one piece")
          .add("first_difference", &Streamed::first_difference, "", "id of the first of them");
  return table;
}

const RecordTable<EndpointRun>& EndpointRun::table() {
  static const auto table =
      RecordTable<EndpointRun>("end of utterances",
                               "Each recording is a stream, with `stream.silence` seconds of "
                               "silence behind it.")
          .add("rule", &EndpointRun::rule, "", "`pause`, `token` or `vad`")
          .add("seconds", &EndpointRun::seconds, "s",
               "that it waits for, without a word or without speech; null for `token`")
          .add("ends", &EndpointRun::ends, "", "utterances with words that it ended")
          .add("early", &EndpointRun::early, "",
               "those of them behind which a recording has more words")
          .add("missed", &EndpointRun::missed, "",
               "recordings whose last words it left to the end of the stream")
          .add(
              "delay_seconds", &EndpointRun::delay_seconds, "s",
              "audio from the end of an utterance's last word until its text was final, mean; null "
              "where it ended none")
          .add("delay_p50_seconds", &EndpointRun::delay_p50_seconds, "s", "median of it")
          .add("delay_p95_seconds", &EndpointRun::delay_p95_seconds, "s", "95th percentile of it");
  return table;
}

const RecordTable<LostWords>& LostWords::table() {
  static const auto table =
      RecordTable<LostWords>("lost words",
                             "A word is at a seam if it is at most `seam_seconds` from a border "
                             "between two steps of the stream.")
          .add("words", &LostWords::words, "", "words of the results of whole utterances")
          .add("lost", &LostWords::lost, "",
               "words for which the stream has none, in the alignment with the fewest edits")
          .add("lost_at_seams", &LostWords::lost_at_seams, "", "lost words that are at a seam")
          .add("share_at_seams", &LostWords::share_at_seams, "",
               "share of `words` that are at a seam, for comparison; null without words")
          .add("seam_seconds", &LostWords::seam_seconds, "s",
               "largest distance from a border at which a word is at a seam");
  return table;
}

const RecordTable<StreamedQuality>& StreamedQuality::table() {
  static const auto table =
      RecordTable<StreamedQuality>("quality of streams", "")
          .add("streamed", &StreamedQuality::streamed, "", "word errors of the streamed utterances")
          .add("whole", &StreamedQuality::whole, "",
               "word errors of the same decoder on whole utterances, with their whole encoder")
          .add("difference", &StreamedQuality::difference, "", "`streamed` minus `whole`, of `wer`")
          .add("low", &StreamedQuality::low, "",
               "lower end of its 95 % interval, by a bootstrap over utterances")
          .add("high", &StreamedQuality::high, "", "upper end")
          .add("first_delay_seconds", &StreamedQuality::first_delay_seconds, "s",
               "audio from the end of an utterance's first token until it is shown, mean; null "
               "where nothing was shown")
          .add("lag_seconds", &StreamedQuality::lag_seconds, "s",
               "audio from the end of the last token that is shown until now, mean over updates")
          .add("lag_p95_seconds", &StreamedQuality::lag_p95_seconds, "s", "95th percentile of it")
          .add("changed_share", &StreamedQuality::changed_share, "",
               "share of the tokens that were shown and that a later text lacks")
          .add("lost_words", &StreamedQuality::lost_words, "",
               "words of whole utterances that the streams lack");
  return table;
}

const RecordTable<StreamRun>& StreamRun::table() {
  static const auto table =
      with_case(RecordTable<StreamRun>("stream", "There is one per decoder and number of streams."))
          .add("stream", &StreamRun::stream, "", "the settings with all defaults", 0,
               {named("scope", kText), named("slo_ms", kNumber)})
          .add("requests", &StreamRun::requests, "", "requests after the part that is discarded")
          .add("batches", &StreamRun::batches, "", "batches that served them")
          .add("stable", &StreamRun::stable, "",
               "whether the queue time grew by at most 0.01 seconds per second")
          .add(
              "slo", &StreamRun::slo, "",
              "whether the limit is kept, `slo_ms` with a stable queue or `rule`; null without one")
          .add("confirms", &StreamRun::confirms, "",
               "of a trial of `rule`: whether it is the long one, which confirms a number")
          .add("metrics", &StreamRun::metrics, "",
               "the [metrics](metrics.md) of the requests, with `.p50`, `.p95`, `.p99` and `.max`")
          .add("streamed", &StreamRun::streamed, "",
               "the results, against the same encoder and search on utterances in one piece")
          .add("quality", &StreamRun::quality, "",
               "word errors of the whole set, with `quality` and in trials that confirm")
          .add("endpoints", &StreamRun::endpoints, "",
               "how late each of `stream.endpoints` ended utterances, likewise");
  return table;
}

const RecordTable<Failure>& Failure::table() {
  static const auto table =
      with_case(
          RecordTable<Failure>("failure",
                               "With `isolate` it is also what remains of a case whose process "
                               "ended by itself or exceeded `protocol.case_limit_seconds`."))
          .add("stage", &Failure::stage, "",
               "a region, or `prepare`, `load`, `pass`, `verify`, `energy`, `stream`")
          .add("message", &Failure::message, "", "the error");
  return table;
}

const RecordTable<Build>& Build::table() {
  static const auto table =
      RecordTable<Build>("build", "")
          .add("version", &Build::version, "", "version of rtfx")
          .add("revision", &Build::revision, "", "commit of the sources")
          .add("dirty", &Build::dirty, "", "whether the sources had changes")
          .add("build_type", &Build::build_type, "", "CMake's build type")
          .add("compiler", &Build::compiler, "", "name and version")
          .add("sanitizer", &Build::sanitizer, "", "whether the build has one");
  return table;
}

const RecordTable<Device>& Device::table() {
  static const auto table =
      RecordTable<Device>("device", "")
          .add("type", &Device::type, "", "`cpu` or `cuda`")
          .add("name", &Device::name, "", "its product name")
          .add("memory_bytes", &Device::memory_bytes, "byte", "memory of a GPU")
          .add("multiprocessors", &Device::multiprocessors, "", "number of a GPU's processors")
          .add("capability", &Device::capability, "", "compute capability of a GPU")
          .add("uuid", &Device::uuid, "", "identity of a GPU");
  return table;
}

const RecordTable<Affinity>& Affinity::table() {
  static const auto table = RecordTable<Affinity>("affinity", "")
                                .add("cpus", &Affinity::cpus, "", "CPUs that rtfx may use")
                                .add("list", &Affinity::list, "", "their numbers, as ranges");
  return table;
}

const RecordTable<GroupLimits>& GroupLimits::table() {
  static const auto table =
      RecordTable<GroupLimits>("group limits", "A limit that does not exist is null.")
          .add("cpus", &GroupLimits::cpus, "", "CPUs of the control group")
          .add("memory_bytes", &GroupLimits::memory_bytes, "byte", "memory of the control group");
  return table;
}

const RecordTable<Cpu>& Cpu::table() {
  static const auto table =
      RecordTable<Cpu>("cpu", "")
          .add("model", &Cpu::model, "", "its product name")
          .add("family", &Cpu::family, "", "its family, a number of the vendor")
          .add("model_number", &Cpu::model_number, "",
               "its model within the family; cloud machines with one product name differ in it")
          .add("stepping", &Cpu::stepping, "", "its revision")
          .add("cache_kib", &Cpu::cache_kib, "KiB", "the cache that the kernel names")
          .add("clock_mhz", &Cpu::clock_mhz, "MHz", "its highest clock, where the kernel tells it")
          .add("hypervisor", &Cpu::hypervisor, "",
               "the virtual machine's host, such as `KVMKVMKVM`; null: none")
          .add("calibration_ms", &Cpu::calibration_ms, "ms",
               "best time of a fixed chain of integer operations on one CPU; it shows clocks and "
               "cores that share a name")
          .add("cores", &Cpu::cores, "", "logical cores of the machine")
          .add("threads", &Cpu::threads, "", "threads that LibTorch uses")
          .add("wait_policy", &Cpu::wait_policy, "", "how OpenMP's threads wait")
          .add("affinity", &Cpu::affinity, "", "CPUs that this process may use")
          .add("load_average", &Cpu::load_average, "", "load of the last minute; null: unknown")
          .add("group_limits", &Cpu::group_limits, "", "limits of the control group");
  return table;
}

const RecordTable<ModelFile>& ModelFile::table() {
  static const auto table =
      RecordTable<ModelFile>("model file", "")
          .add("id", &ModelFile::id, "", "name in the configuration")
          .add("path", &ModelFile::path, "", "the checkpoint")
          .add("format", &ModelFile::format, "", "format of the checkpoint")
          .add("kind", &ModelFile::kind, "",
               "`rnnt`, `multiblank`, `tdt`, `ctc` or a hybrid of them")
          .add("sha256", &ModelFile::sha256, "", "hash of the checkpoint")
          .add("weights", &ModelFile::weights, "",
               "`checkpoint`, or `synthetic` for random weights; only in older journals")
          .add("encoder", &ModelFile::encoder, "",
               "the encoder that random weights have; only in older journals")
          .add("stand_in", &ModelFile::stand_in, "",
               "what the checkpoint was made from and how, where it stands in for another one; in "
               "older journals, the checkpoint of decoder, frames and words where the encoder's "
               "weights are random")
          .add("parameters", &ModelFile::parameters, "", "number of weights of the full size")
          .add("notices", &ModelFile::notices, "", "remarks of the reader");
  return table;
}

const RecordTable<DatasetFile>& DatasetFile::table() {
  static const auto table =
      RecordTable<DatasetFile>("dataset file", "")
          .add("id", &DatasetFile::id, "", "name in the configuration")
          .add("path", &DatasetFile::path, "", "the manifest, the folder or the first file")
          .add("stand_in", &DatasetFile::stand_in, "",
               "description of the audio that stands in for the set")
          .add("utterances", &DatasetFile::utterances, "", "number of its utterances")
          .add("audio_seconds", &DatasetFile::audio_seconds, "s", "their audio")
          .add("load_seconds", &DatasetFile::load_seconds, "s",
               "time to read the audio files before the passes, which RTFx leaves out")
          .add("sha256", &DatasetFile::sha256, "", "hash of the utterances")
          .add("notices", &DatasetFile::notices, "", "remarks of the reader");
  return table;
}

const RecordTable<ShardDevices>& ShardDevices::table() {
  static const auto table = RecordTable<ShardDevices>("shards", "")
                                .add("count", &ShardDevices::count, "", "number of processes")
                                .add("devices", &ShardDevices::devices, "", "the device of each");
  return table;
}

const RecordTable<Provenance>& Provenance::table() {
  static const auto table =
      with_head(RecordTable<Provenance>("provenance", "There is one per invocation."))
          .add("name", &Provenance::name, "", "name of the configuration")
          .add("question", &Provenance::question, "", "the question that the run answers")
          .add("config", &Provenance::config, "", "the configuration with all defaults", 0,
               config_members())
          .add("config_hash", &Provenance::config_hash, "", "hash of the configuration")
          .add("rtfx", &Provenance::rtfx, "", "the build of rtfx")
          .add("libtorch", &Provenance::libtorch, "", "version of LibTorch")
          .add("cuda_runtime", &Provenance::cuda_runtime, "", "version; null on a CPU")
          .add("cuda_driver", &Provenance::cuda_driver, "", "version; null on a CPU")
          .add("cudnn", &Provenance::cudnn, "", "version; null on a CPU")
          .add("device", &Provenance::device, "", "the device of all cases")
          .add("cpu", &Provenance::cpu, "", "the CPUs that this process may use")
          .add("host_name", &Provenance::host_name, "", "name of the machine")
          .add("host_os", &Provenance::host_os, "", "operating system of the machine")
          .add("tf32", &Provenance::tf32, "",
               "whether LibTorch's matrix products may round fp32 to TF32")
          .add("models", &Provenance::models, "", "the models of the run")
          .add("datasets", &Provenance::datasets, "", "the datasets of the run")
          .add("decoder_files", &Provenance::decoder_files, "",
               "SHA-256 of each file that decoders' options name, by its path")
          .add("shards", &Provenance::shards, "", "where the run had several processes")
          .add("imported_from", &Provenance::imported_from, "",
               "the file of Nsight Systems that `rtfx profile import` read");
  return table;
}

const RecordTable<KernelRuns>& KernelRuns::table() {
  static const auto table =
      RecordTable<KernelRuns>("runs of a kernel",
                              "It also describes the calls of a function, and the kernels "
                              "that a segment launched.")
          .add("name", &KernelRuns::name, "",
               "without template arguments, but for the first of rtfx's own kernels")
          .add("count", &KernelRuns::count, "", "number of runs")
          .add("total_seconds", &KernelRuns::total_seconds, "s", "sum of their lengths")
          .add("mean_seconds", &KernelRuns::mean_seconds, "s", "mean length")
          .add("min_seconds", &KernelRuns::min_seconds, "s", "least length")
          .add("max_seconds", &KernelRuns::max_seconds, "s", "greatest length")
          .add("share", &KernelRuns::share, "", "of the region's `kernel_seconds`");
  return table;
}

const RecordTable<BusyShare>& BusyShare::table() {
  static const auto table =
      RecordTable<BusyShare>("busy share", "The 95 % interval is of the spread over laps.")
          .add("share", &BusyShare::share, "", "`lap_kernel_seconds` / `undisturbed_seconds`")
          .add("low", &BusyShare::low, "", "lower end; null: unknown")
          .add("high", &BusyShare::high, "", "upper end; null: unknown");
  return table;
}

const RecordTable<ProfiledRegion>& ProfiledRegion::table() {
  using R = ProfiledRegion;
  static const auto table =
      RecordTable<R>(
          "profiled region",
          "Every number is the sum over all batches and laps with the collector, and a list "
          "has an entry for each lap. Figures of a GPU are null without one.")
          .add("wall_seconds", &R::wall_seconds, "s",
               "time from its begin to its end, when the device is idle")
          .add("lap_seconds", &R::lap_seconds, "s", "the same of each lap")
          .add("undisturbed_seconds", &R::undisturbed_seconds, "s",
               "the same in the laps without the collector, which another process ran before; null "
               "for a phase")
          .add("lap_kernel_seconds", &R::lap_kernel_seconds, "s",
               "the time in which a kernel ran, those that overlap once; null where a graph's "
               "kernels are not known")
          .add("busy", &R::busy, "",
               "the one busy share that tables and figures show; null where it is not known")
          .add("gpu.busy", &R::gpu_busy, "",
               "share of `wall_seconds` in which a kernel runs; null where a graph's kernels are "
               "not known")
          .add("gpu.idle", &R::gpu_idle, "", "1 - `gpu.busy`")
          .add("gpu.busy_with_copies", &R::gpu_busy_with_copies, "",
               "the same share, copies and memsets counting as work")
          .add("gpu.idle_with_copies", &R::gpu_idle_with_copies, "", "1 - that")
          .add("gpu.starved", &R::gpu_starved, "",
               "share of `wall_seconds` in which no kernel, copy or memset runs and no CUDA graph "
               "is under way: the device waits for the host")
          .add("gpu.idle_launch", &R::gpu_idle_launch, "",
               "1 - mean kernel time / mean interval between launches; null with graphs")
          .add("kernels", &R::kernels, "", "kernels that ran")
          .add("graph_kernels", &R::graph_kernels, "",
               "those that a CUDA graph started; some versions of CUPTI see a loop inside a graph "
               "once only, and `gpu.busy` is then too small")
          .add("kernel_seconds", &R::kernel_seconds, "s", "sum of the kernels' lengths")
          .add("kernel_mean_seconds", &R::kernel_mean_seconds, "s", "mean of their lengths")
          .add("launches", &R::launches, "", "calls that launch a kernel")
          .add("graph_launches", &R::graph_launches, "", "calls that launch a graph")
          .add("copies", &R::copies, "", "memory copies and memsets")
          .add("copied_bytes", &R::copied_bytes, "byte", "their bytes")
          .add("synchronizations", &R::synchronizations, "",
               "calls that wait for the device, without rtfx's own at the end of a region")
          .add("synchronization_seconds", &R::synchronization_seconds, "s", "their length")
          .add("longest_gap_seconds", &R::longest_gap_seconds, "s",
               "the longest time without a kernel, copy or memset")
          .add("top_kernels", &R::top_kernels, "", "the kernels that are longest in total")
          .add("top_calls", &R::top_calls, "",
               "the functions of CUDA that the host spent most time in, those within others left "
               "out");
  return table;
}

const RecordTable<Profile>& Profile::table() {
  static const auto table =
      with_case(RecordTable<Profile>(
                    "profile",
                    "There is one per case of `rtfx profile`. A profile that was imported knows "
                    "of its case what the case's name says."))
          .add("laps", &Profile::laps, "", "passes over the dataset")
          .add("gpu_figures", &Profile::gpu_figures, "",
               "`cupti`, `nsight_systems`, or null where there are none; `remarks` says why")
          .add("graph_trace", &Profile::graph_trace, "",
               "`node`: every kernel of a CUDA graph is recorded; `graph`: its run as a whole, as "
               "one kernel")
          .add("collector", &Profile::collector, "", "its version, its file, and what it refused")
          .add("dropped_records", &Profile::dropped_records, "", "records that it lost")
          .add("records_without_time", &Profile::records_without_time, "",
               "records that had no time")
          .add("valid", &Profile::valid, "", "whether nothing was lost")
          .add("remarks", &Profile::remarks, "", "reasons for what is missing")
          .add("regions", &Profile::regions, "", "by region, and by phase such as `decode.loop`")
          .add("segments", &Profile::segments, "",
               "the segments of the host that launched kernels, with CUPTI alone; kernels of a "
               "CUDA graph belong to the segment that launches it");
  return table;
}

const RecordTable<Limits>& Limits::table() {
  static const auto table =
      RecordTable<Limits>("limits", "")
          .add("bytes_per_second", &Limits::bytes_per_second, "byte/s", "of the memory")
          .add("vector_flop_per_second", &Limits::vector_flop_per_second, "FLOP/s",
               "of the vector units")
          .add("matrix_flop_per_second", &Limits::matrix_flop_per_second, "FLOP/s",
               "of the matrix units; null: unknown");
  return table;
}

const RecordTable<CountedKernel>& CountedKernel::table() {
  static const auto table =
      RecordTable<CountedKernel>("counted kernel", "Figures are means of the counted launches.")
          .add("part", &CountedKernel::part, "", "the phase or segment that launched it")
          .add("name", &CountedKernel::name, "", "the kernel")
          .add("count", &CountedKernel::count, "", "counted launches")
          .add("seconds", &CountedKernel::seconds, "s", "length")
          .add("bytes", &CountedKernel::bytes, "byte", "traffic of the memory")
          .add("l2_bytes", &CountedKernel::l2_bytes, "byte", "traffic of the L2 cache")
          .add("flop", &CountedKernel::flop, "FLOP", "operations")
          .add("shares", &CountedKernel::shares, "",
               "shares of the limits: `memory`, `l2`, `vector`, `matrix`")
          .add("share", &CountedKernel::share, "", "the largest of them")
          .add("bound", &CountedKernel::bound, "", "its name");
  return table;
}

const RecordTable<OperatorCost>& OperatorCost::table() {
  static const auto table =
      RecordTable<OperatorCost>("operator", "")
          .add("name", &OperatorCost::name, "", "the operator of LibTorch")
          .add("count", &OperatorCost::count, "", "calls of a lap")
          .add("bytes", &OperatorCost::bytes, "byte", "inputs and outputs once")
          .add("flop", &OperatorCost::flop, "FLOP", "operations")
          .add("least_seconds", &OperatorCost::least_seconds, "s",
               "time at the limits; null: unknown");
  return table;
}

const RecordTable<Roofline>& Roofline::table() {
  static const auto table =
      with_case(
          RecordTable<Roofline>("roofline", "There is one per case of `rtfx profile --roofline`."))
          .add("region", &Roofline::region, "", "the region")
          .add("laps", &Roofline::laps, "", "passes over the dataset")
          .add("seconds", &Roofline::seconds, "s", "mean time of the region in a lap")
          .add("limits", &Roofline::limits, "", "limits of the device; null: unknown")
          .add("remarks", &Roofline::remarks, "", "reasons for what is missing")
          .add("least_seconds", &Roofline::least_seconds, "s",
               "sum of the operators' `least_seconds`")
          .add("share", &Roofline::share, "", "`least_seconds` / `seconds`")
          .add("source", &Roofline::source, "", "`ncu` (`kernels`) or `reckoned` (`operators`)")
          .add("kernels", &Roofline::kernels, "",
               "one for each phase or segment that launched a kernel")
          .add("operators", &Roofline::operators, "", "the operators of a lap");
  return table;
}

const RecordTable<Unknown>& Unknown::table() {
  static const auto table = with_head(RecordTable<Unknown>("unknown", ""))
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
