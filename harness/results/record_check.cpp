#include "harness/results/record_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/results/damaged_record.h"
#include "harness/results/records.h"
#include "harness/scoring/exactness.h"
#include "models/dtypes.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// Comparisons take the name apart: model/dataset/decoder/batch/dtype.
template <class Record>
void check_case(const Record& record, const std::string& where) {
  parse_dtypes(record.dtype, where);
  const std::string name =
      fmt::format("{}/{}/{}/", record.model.id, record.dataset.id, record.decoder.id);
  if (!record.case_name.starts_with(name)) {
    refuse_record(where, fmt::format("'case' is '{}'", record.case_name),
                  fmt::format("it must begin '{}'", name));
  }
}

void check_grade(const std::string& name, const char* more, const std::string& where) {
  std::vector<std::string> allowed(grade_names().begin(), grade_names().end());
  if (more != nullptr) allowed.emplace_back(more);
  if (std::ranges::find(allowed, name) == allowed.end())
    throw unknown_name(where, "grade", name, allowed);
}

/// The rules that join several fields.
struct JointRules {
  std::string where;

  void operator()(const record::Provenance& record) const {
    if (!record.config) return;
    const json required =
        record.config->value.value("/verify/required"_json_pointer, json::object());
    for (const json& grade : required) check_grade(grade.get<std::string>(), nullptr, where);
  }
  void operator()(const record::Run& record) const {
    if (record.exactness) check_grade(record.exactness->grade, "baseline", where);
    check_case(record, where);
  }
  void operator()(const record::StreamRun& record) const { check_case(record, where); }
  void operator()(const record::Failure& record) const { check_case(record, where); }
  void operator()(const auto&) const {}
};

}  // namespace

void check_record(const json& object, const std::string& where) {
  check_object(object, record::Unknown::table().info(), where);
  if (const record::Kind* kind = record::find_kind(object.value("kind", "")))
    check_object(object, kind->info(), where);
  std::visit(JointRules{where}, record::read(object));
}

void check_hypothesis(const json& line, const std::string& where) {
  static const ObjectInfo info{
      .name = "hypothesis",
      .about = "",
      .fields = {{.name = "id", .types = kText},
                 {.name = "text", .types = kText},
                 {.name = "reference", .types = kText | kNull},
                 {.name = "seconds", .types = kNotNegative, .required = false}}};
  check_object(line, info, where);
}

}  // namespace rtfx
