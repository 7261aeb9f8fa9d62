#include "harness/results/record_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "harness/scoring/exactness.h"
#include "models/dtypes.h"

namespace rtfx {
namespace {

using nlohmann::json;

enum Types : unsigned {
  kText = 1,
  kNumber = 2,
  kInteger = 4,
  kObject = 8,
  kList = 16,
  kFlag = 32,
  kNull = 64,
  kPositive = 128,
  kNotNegative = 256
};

struct Field {
  std::string path;  // members with a / between them; * is every member of an object or a list
  unsigned types = 0;
  bool required = true;  // where what it is a member of is there
};

std::string names_of(unsigned types) {
  const std::pair<unsigned, const char*> all[] = {{kText, "text"},
                                                  {kNumber, "a number"},
                                                  {kInteger, "an integer"},
                                                  {kObject, "an object"},
                                                  {kList, "a list"},
                                                  {kFlag, "true or false"},
                                                  {kNull, "null"},
                                                  {kPositive, "a number above 0"},
                                                  {kNotNegative, "a number from 0"}};
  std::string names;
  for (const auto& [type, name] : all) {
    if ((types & type) != 0) names += (names.empty() ? "" : " or ") + std::string(name);
  }
  return names;
}

bool is_of(const json& value, unsigned types) {
  return ((types & kText) != 0 && value.is_string()) ||
         ((types & kNumber) != 0 && value.is_number()) ||
         ((types & kInteger) != 0 && value.is_number_integer()) ||
         ((types & kObject) != 0 && value.is_object()) ||
         ((types & kList) != 0 && value.is_array()) ||
         ((types & kFlag) != 0 && value.is_boolean()) ||
         ((types & kNull) != 0 && value.is_null()) ||
         ((types & kPositive) != 0 && value.is_number() && value.get<double>() > 0) ||
         ((types & kNotNegative) != 0 && value.is_number() && value.get<double>() >= 0);
}

[[noreturn]] void refuse(const std::string& where, const std::string& problem,
                         const std::string& remedy) {
  throw UserError(where, problem,
                  remedy + "; the journal was edited or damaged, or is of another release");
}

/// `begin`: of the part of the field's path that is still to go.
void check(const json& value, const Field& field, size_t begin, const std::string& where) {
  if (begin > field.path.size()) {
    if (is_of(value, field.types)) return;
    const std::string text = value.dump();
    refuse(where, fmt::format("'{}' is {}", field.path, text.substr(0, 40)),
           "it must be " + names_of(field.types));
  }
  const size_t end = std::min(field.path.find('/', begin), field.path.size());
  const std::string name = field.path.substr(begin, end - begin);
  if (name == "*" && value.is_structured()) {
    for (const json& member : value) check(member, field, end + 1, where);
  } else if (name != "*" && value.is_object()) {
    const auto found = value.find(name);
    if (found != value.end()) return check(*found, field, end + 1, where);
    if (field.required && end == field.path.size())
      refuse(where, fmt::format("'{}' is missing", field.path), "add it");
  }
  // Else the field that it would be a member of says what is wrong.
}

void check_all(const json& record, const std::vector<Field>& fields, const std::string& where) {
  for (const Field& field : fields) check(record, field, 0, where);
}

const std::vector<Field>& any_fields() {
  static const std::vector<Field> fields = {
      {"kind", kText, false},    {"provenance_id", kText, false}, {"result_key", kText, false},
      {"started", kText, false}, {"profiled", kFlag, false},      {"round", kInteger, false},
      {"suspect", kList, false}, {"deterministic", kFlag, false}};
  return fields;
}

/// The fields that name a case, in runs, streams and failures.
const std::vector<Field>& case_fields() {
  static const std::vector<Field> fields = {{"case", kText},
                                            {"result_key", kText},
                                            {"model", kObject},
                                            {"model/id", kText},
                                            {"model/weights", kText, false},
                                            {"dataset", kObject},
                                            {"dataset/id", kText},
                                            {"dataset/utterances", kInteger},
                                            {"dataset/audio_seconds", kNumber},
                                            {"dataset/stand_in", kText | kNull, false},
                                            {"decoder", kObject},
                                            {"decoder/id", kText},
                                            {"decoder/name", kText},
                                            {"decoder/options", kObject, false},
                                            {"decoder/head", kText},
                                            {"decoder/exactness", kText},
                                            {"decoder/control_of", kText, false},
                                            {"batch", kObject},
                                            {"batch/by", kText},
                                            {"batch/size", kNumber},
                                            {"dtype", kText},
                                            {"device", kText}};
  return fields;
}

const std::vector<Field>& run_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> list = {{"round", kInteger},
                               {"total_seconds", kNumber},
                               {"regions", kObject},
                               {"regions/*", kObject},
                               {"regions/*/host_seconds", kNumber},
                               {"regions/decode", kObject},
                               {"wer", kObject},
                               {"wer/normalizer", kText},
                               {"wer/version", kInteger},
                               {"wer/wer", kNumber | kNull},
                               {"wer/substitutions", kInteger},
                               {"wer/deletions", kInteger},
                               {"wer/insertions", kInteger},
                               {"exactness", kObject | kNull},
                               {"exactness/baseline", kText},
                               {"exactness/grade", kText},
                               {"exactness/grades", kObject},
                               {"exactness/grades/*", kInteger},
                               {"exactness/first_difference", kObject | kNull},
                               {"exactness/first_difference/utterance", kText},
                               {"exactness/first_difference/frame", kInteger},
                               {"exactness/first_difference/seconds", kNumber},
                               {"exactness/first_difference/baseline_words", kText},
                               {"exactness/first_difference/words", kText},
                               {"exactness/replay", kObject | kNull, false},
                               {"exactness/replay/decisions", kInteger},
                               {"exactness/replay/beyond", kInteger},
                               {"exactness/replay/worst_gap_over_bound", kNumber | kNull},
                               {"exactness/replay/first", kObject | kNull},
                               {"exactness/replay/first/utterance", kText},
                               {"exactness/replay/first/kind", kText},
                               {"exactness/replay/first/frame", kInteger},
                               {"exactness/replay/first/seconds", kNumber},
                               {"exactness/replay/first/chosen", kInteger},
                               {"exactness/replay/first/best", kInteger},
                               {"exactness/replay/first/gap", kNumber | kNull},
                               {"exactness/replay/first/bound", kNumber | kNull},
                               {"all_empty", kFlag, false},
                               {"oracle_wer", kObject | kNull, false},
                               {"boosted", kObject | kNull, false},
                               {"hypotheses_sha256", kText},
                               {"metrics", kObject}};
    list.push_back({"batches", kObject, false});
    for (const char* key : {"audio_seconds", "total_seconds", "decode_seconds"}) {
      list.push_back({fmt::format("batches/{}", key), kList});
      list.push_back({fmt::format("batches/{}/*", key), kNotNegative});
    }
    list.push_back({"batches/audio_seconds/*", kPositive});
    list.push_back({"pipeline", kObject, false});
    list.push_back({"pipeline/in_flight", kInteger});
    list.push_back({"pipeline/audio", kText});
    list.push_back({"bound_by", kText, false});
    for (const char* stage : {"load", "copy", "encoder", "decode", "texts"})
      list.push_back({fmt::format("metrics/busy.{}", stage), kNotNegative | kNull, false});
    for (const char* key : {"rtfx.total", "rtfx.encode_decode", "rtfx.decode"})
      list.push_back({fmt::format("metrics/{}", key), kPositive | kNull});
    list.push_back({"metrics/share.decode", kNumber | kNull});
    // Earlier releases have none of these.
    for (const char* key :
         {"batch_ms.p50", "batch_ms.p95", "batch_ms.p99", "energy.joules_per_hour"})
      list.push_back({fmt::format("metrics/{}", key), kPositive | kNull, false});
    for (const char* key : {"memory.kept_mib", "memory.peak_mib"})
      list.push_back({fmt::format("metrics/{}", key), kNotNegative | kNull, false});
    list.push_back({"wall_seconds", kNotNegative, false});
    list.push_back({"cpu_seconds", kNotNegative, false});
    list.push_back({"gap_seconds", kNumber, false});
    list.push_back({"counters/host_reads", kNotNegative, false});
    list.push_back({"suspect/*", kText, false});
    return list;
  }();
  return fields;
}

const std::vector<Field>& provenance_fields() {
  static const std::vector<Field> fields = {{"config", kObject, false},
                                            {"config/verify", kObject, false},
                                            {"config/verify/required", kObject, false},
                                            {"config/verify/required/*", kText},
                                            {"config/protocol", kObject, false},
                                            {"config/protocol/cv_max", kNumber, false},
                                            {"config/protocol/measured_rounds", kInteger, false},
                                            {"config_hash", kText, false},
                                            {"rtfx", kObject, false},
                                            {"rtfx/version", kText, false},
                                            {"rtfx/revision", kText, false},
                                            {"rtfx/dirty", kFlag, false},
                                            {"rtfx/sanitizer", kFlag, false},
                                            {"rtfx/build_type", kText, false},
                                            {"device", kObject, false},
                                            {"device/name", kText, false},
                                            {"shards", kObject, false},
                                            {"cpu", kObject, false},
                                            {"cpu/cores", kInteger, false},
                                            {"cpu/threads", kInteger, false},
                                            {"host_name", kText, false},
                                            {"models", kList, false},
                                            {"models/*", kObject},
                                            {"models/*/id", kText},
                                            {"datasets", kList, false},
                                            {"datasets/*", kObject},
                                            {"datasets/*/id", kText},
                                            {"datasets/*/sha256", kText, false},
                                            {"datasets/*/stand_in", kText | kNull, false},
                                            {"decoder_files", kObject, false},
                                            {"decoder_files/*", kText}};
  return fields;
}

const std::vector<Field>& stream_fields() {
  static const std::vector<Field> fields = {{"metrics", kObject},
                                            {"stream", kObject},
                                            {"stream/scope", kText, false},
                                            {"stream/slo_ms", kNumber, false},
                                            {"stable", kFlag},
                                            {"slo", kFlag | kNull, false},
                                            {"streamed", kObject},
                                            {"streamed/different", kInteger},
                                            {"streamed/tokens", kInteger, false},
                                            {"streamed/first_difference", kText | kNull}};
  return fields;
}

/// Comparisons take the name apart: model/dataset/decoder/batch/dtype.
void check_case_name(const json& record, const std::string& where) {
  std::string name;
  for (const char* key : {"model", "dataset", "decoder"})
    name += record[key]["id"].get_ref<const std::string&>() + "/";
  const auto& given = record["case"].get_ref<const std::string&>();
  if (!given.starts_with(name))
    refuse(where, fmt::format("'case' is '{}'", given), fmt::format("it must begin '{}'", name));
}

void check_name(const json& value, const std::vector<std::string>& allowed, const char* kind,
                const std::string& where) {
  const auto& name = value.get_ref<const std::string&>();
  if (std::ranges::find(allowed, name) == allowed.end())
    throw unknown_name(where, kind, name, allowed);
}

std::vector<std::string> grades(const char* more = nullptr) {
  std::vector<std::string> names(grade_names().begin(), grade_names().end());
  if (more != nullptr) names.emplace_back(more);
  return names;
}

void check_provenance(const json& record, const std::string& where) {
  check_all(record, provenance_fields(), where);
  const json required = record.value("/config/verify/required"_json_pointer, json::object());
  for (const json& grade : required) check_name(grade, grades(), "grade", where);
}

}  // namespace

void check_record(const json& record, const std::string& where) {
  check_all(record, any_fields(), where);
  const std::string kind = record.value("kind", "");
  if (kind == "provenance") return check_provenance(record, where);
  if (kind == "failure") {
    check_all(record, {{"stage", kText}, {"message", kText}}, where);
  } else if (kind == "run") {
    check_all(record, run_fields(), where);
    if (record["exactness"].is_object())
      check_name(record["exactness"]["grade"], grades("baseline"), "grade", where);
  } else if (kind == "stream") {
    check_all(record, stream_fields(), where);
  } else if (kind == "profile") {
    return check_all(record, {{"regions", kObject, false}, {"regions/decode", kObject, false}},
                     where);
  } else {
    return;
  }
  if (record.value("profiled", false)) return;
  check_all(record, case_fields(), where);
  parse_dtypes(record["dtype"].get_ref<const std::string&>(), where);
  check_case_name(record, where);
}

void check_hypothesis(const json& line, const std::string& where) {
  check_all(line,
            {{"id", kText},
             {"text", kText},
             {"reference", kText | kNull},
             {"seconds", kNotNegative, false}},
            where);
}

}  // namespace rtfx
