#include "harness/cli/journal_reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/results/records.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// The name with another character for its spaces.
std::string spaces_as(char replacement, std::string name) {
  std::ranges::replace(name, ' ', replacement);
  return name;
}

/// "[word errors](#word-errors) or null"; "a list of: a number".
std::string type_text(const FieldInfo& field) {
  if (field.object != nullptr) {
    const std::string& name = field.object->name;
    const bool null = (field.types & kNull) != 0;
    return fmt::format("[{}](#{}){}", name, spaces_as('-', name), null ? " or null" : "");
  }
  std::string text = names_of(field.types);
  const auto every = std::ranges::find(field.elements, "*", &FieldInfo::name);
  if (every != field.elements.end()) text += " of: " + type_text(*every);
  return text;
}

/// Text of a cell: a bar would end it.
std::string table_cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string field_table(const std::vector<FieldInfo>& fields, const std::string& group) {
  std::string table = "\n| field | type | unit | present | meaning |\n|---|---|---|---|---|\n";
  for (const FieldInfo& field : fields) {
    if (field.group != group) continue;
    table += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.name, type_text(field), field.unit,
                         field.required ? "always" : "", table_cell(field.help));
  }
  return table;
}

void add_objects(const std::vector<FieldInfo>& fields, std::vector<const ObjectInfo*>& found) {
  for (const FieldInfo& field : fields) {
    if (field.object != nullptr && std::ranges::find(found, field.object) == found.end()) {
      found.push_back(field.object);
      add_objects(field.object->fields, found);
    }
    add_objects(field.elements, found);
  }
}

/// All objects that records hold, each once.
std::vector<const ObjectInfo*> all_objects() {
  std::vector<const ObjectInfo*> found;
  for (const record::Kind& kind : record::kinds()) add_objects(kind.info().fields, found);
  return found;
}

json object_schema(const std::vector<FieldInfo>& fields);

json field_schema(const FieldInfo& field) {
  const bool null = (field.types & kNull) != 0;
  if (field.object != nullptr) {
    const json reference = {{"$ref", "#/$defs/" + spaces_as('_', field.object->name)}};
    const json nothing = {{"type", "null"}};
    return null ? json::object({{"anyOf", json::array({reference, nothing})}}) : reference;
  }
  const std::pair<unsigned, const char*> names[] = {
      {kText, "string"}, {kInteger, "integer"}, {kObject, "object"},
      {kList, "array"},  {kFlag, "boolean"},    {kNumber | kPositive | kNotNegative, "number"},
      {kNull, "null"}};
  json types = json::array();
  for (const auto& [type, name] : names) {
    if ((field.types & type) != 0) types.push_back(name);
  }
  json schema = (field.types & kList) != 0 ? json::object() : object_schema(field.elements);
  schema["type"] = types.size() == 1 ? types.front() : types;
  if ((field.types & kPositive) != 0) schema["exclusiveMinimum"] = 0;
  if ((field.types & kNotNegative) != 0) schema["minimum"] = 0;
  if ((field.types & kList) != 0) schema["items"] = field_schema(field.elements.front());
  return schema;
}

json object_schema(const std::vector<FieldInfo>& fields) {
  json schema = json::object();
  for (const FieldInfo& field : fields) {
    if (field.name == "*") {
      schema["additionalProperties"] = field_schema(field);
      continue;
    }
    schema["properties"][field.name] = field_schema(field);
    if (field.required) schema["required"].push_back(field.name);
  }
  return schema;
}

}  // namespace

std::string journal_page() {
  std::string page = R"(# Fields of the journal

Each line of a journal is a JSON object, a *record*. [The journal](../journal.md) says which files there are and
how the figures are measured. [journal.schema.json](../journal.schema.json) is the JSON Schema of a line, for other
programs.

A field that is not marked *always* is left out where it does not apply, and journals of earlier releases may lack
it. No number is NaN or infinite: such a value is null.
)";
  for (const record::Kind& kind : record::kinds()) {
    const ObjectInfo& info = kind.info();
    const bool of_case = std::ranges::any_of(
        info.fields, [](const FieldInfo& field) { return field.group == "a case"; });
    page += fmt::format(
        "\n## {}\n\nA record of `{}` with `\"kind\": \"{}\"`. {} It also has the "
        "fields of [every record](#every-record){}.\n",
        kind.name, kind.file, kind.name, info.about, of_case ? " and of [a case](#a-case)" : "");
    page += field_table(info.fields, "");
  }
  for (const char* group : {"every record", "a case"}) {
    page += fmt::format("\n## {}\n", group);
    page += field_table(record::Run::table().info().fields, group);
  }
  for (const ObjectInfo* object : all_objects()) {
    page += fmt::format("\n## {}\n", object->name);
    if (!object->about.empty()) page += "\n" + object->about + "\n";
    page += field_table(object->fields, "");
  }
  return page;
}

std::string journal_schema() {
  json names = json::array(), choices = json::array();
  std::string definitions;
  const auto define = [&](const std::string& name, const ObjectInfo& info) {
    json schema = object_schema(info.fields);
    schema["type"] = "object";
    definitions +=
        fmt::format("{}\n  \"{}\": {}", definitions.empty() ? "" : ",", name, schema.dump());
  };
  for (const record::Kind& kind : record::kinds()) {
    names.push_back(kind.name);
    const json condition = {{"properties", {{"kind", {{"const", kind.name}}}}}};
    const json consequence = {{"$ref", "#/$defs/" + kind.name}};
    choices.push_back(json::object({{"if", condition}, {"then", consequence}}));
    define(kind.name, kind.info());
  }
  for (const ObjectInfo* object : all_objects()) define(spaces_as('_', object->name), *object);
  return fmt::format(R"({{
 "$schema": "https://json-schema.org/draft/2020-12/schema",
 "title": "A line of a journal of rtfx",
 "type": "object",
 "required": ["kind"],
 "properties": {{"kind": {{"enum": {}}}}},
 "allOf": {},
 "$defs": {{{}
 }}
}}
)",
                     names.dump(), choices.dump(), definitions);
}

}  // namespace rtfx
