#include "harness/results/record_table.h"

#include <fmt/format.h>

namespace rtfx {

namespace {

using nlohmann::json;

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

void check_members(const json& value, const std::vector<FieldInfo>& fields, const std::string& path,
                   const std::string& where);

/// `path`: the field's place in its record, such as "regions/*/host_seconds".
void check_value(const json& value, const FieldInfo& field, const std::string& path,
                 const std::string& where) {
  if (!is_of(value, field.types)) {
    refuse_record(where, fmt::format("'{}' is {}", path, value.dump().substr(0, 40)),
                  "it must be " + names_of(field.types));
  }
  if (field.object != nullptr) check_members(value, field.object->fields, path + "/", where);
  check_members(value, field.elements, path + "/", where);
}

void check_members(const json& value, const std::vector<FieldInfo>& fields, const std::string& path,
                   const std::string& where) {
  if (!value.is_structured()) return;  // null in its place
  for (const FieldInfo& field : fields) {
    const std::string its_path = path + field.name;
    if (field.name == "*") {
      for (const json& element : value) check_value(element, field, its_path, where);
      continue;
    }
    const auto found = value.find(field.name);
    if (found != value.end()) {
      check_value(*found, field, its_path, where);
    } else if (field.required) {
      refuse_record(where, fmt::format("'{}' is missing", its_path), "add it");
    }
  }
}

}  // namespace

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

void check_object(const json& object, const ObjectInfo& info, const std::string& where) {
  check_members(object, info.fields, "", where);
}

}  // namespace rtfx
