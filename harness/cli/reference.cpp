#include "harness/cli/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "harness/config/config.h"
#include "harness/results/metrics.h"
#include "harness/results/records.h"

namespace rtfx {

namespace {

constexpr const char* kGenerated = "<!-- `scripts/reference.sh` makes this page. -->\n";

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

/// Returns text for a cell. A bar would end the cell, and `<` would begin HTML.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : c == '<' ? "&lt;" : std::string(1, c);
  return escaped;
}

std::string with_full_stop(const std::string& text) {
  return text.ends_with('.') ? text : text + ".";
}

std::string option_table(const std::vector<OptionInfo>& options, const char* head) {
  std::string table =
      fmt::format("| {} | default | allowed | meaning |\n|---|---|---|---|\n", head);
  for (const OptionInfo& o : options) {
    const bool is_value = o.default_text.empty() && default_of(o) != "none";
    table += fmt::format("| {} | {} | {} | {} |\n", code(o.name),
                         cell(is_value ? code(default_of(o)) : default_of(o)), cell(o.allowed),
                         cell(o.help));
  }
  return table;
}

std::string configuration_page(const CommandHelp&) {
  return R"(# Configuration keys

A configuration is plain JSON. Its lists are multiplied: every model, dataset, dtype, batch size and decoder
that fit together make a case. An option of a decoder may be a list of values too, which makes a decoder of
each. An unknown key is an error that names the nearest known one. `null` has the effect of leaving a key out.

A key with a dot stands in an object: `protocol.seed` is `{"protocol": {"seed": 1}}`. `models.path` is the path
of each model. One value may stand for a list of one. Paths in the file are relative to its folder, but `output` is
relative to the working folder. `--set a.b.0.c=value` overrides any value, and its paths are relative to the working folder.

)" + option_table(config_keys().info(), "key");
}

/// Returns, for example, "rnnt, tdt", and the option that chooses among them, if there is one.
std::string models_text(const DecoderEntry& decoder) {
  const std::vector<std::string> kinds = decoder.model_kinds();
  const std::string text = kinds.empty() ? "all" : fmt::format("{}", fmt::join(kinds, ", "));
  const std::string& option = decoder.deciding.kinds;
  return option.empty() ? text : fmt::format("{} (option {})", text, code(option));
}

std::string result_text(const DecoderEntry& decoder) {
  const std::string& option = decoder.deciding.exactness;
  if (!option.empty()) return fmt::format("as the option {} says", code(option));
  const Description d = decoder.make(nullptr, "")->describe();
  return d.exactness == Description::Exactness::exact ? "exact" : "approximate";
}

std::string decoders_page(const CommandHelp&) {
  std::string page = R"(# Decoders and their options

`rtfx list` prints the name, the summary and the options of every decoder, and `rtfx list NAME` those of one. `--json` adds
the models and the kind of result. In fp32 and fp64, *exact* decoders return the tokens and frames of the baseline, with
scores that agree up to rounding. In bf16 and fp16, they may choose another label where two labels are equal up to rounding,
and return other tokens from there on. *Approximate* decoders may return other tokens in every type, since they search
differently or change the model's scores. An option such as `lm` makes an exact decoder approximate. A *label* is a token or
blank. An option with a dot is a member of an object: `lm.alpha` is `{"lm": {"alpha": 0.3}}`.
)";
  for (const DecoderEntry* entry : decoder_entries()) {
    page += fmt::format("\n## {}\n\nSearch: {} Models: {}. Result: {}.\n", entry->name,
                        with_full_stop(entry->summary), models_text(*entry), result_text(*entry));
    if (!entry->options.empty()) page += "\n" + option_table(entry->options, "option");
  }
  return page;
}

std::string metrics_page(const CommandHelp&) {
  std::string page = R"(# Metrics

`rtfx list metrics` prints the names, units and meanings of this page. Journals, tables, pages, exports and the gate
use the same names. A metric without a unit is a share, where 1 is 100 %.

The column *better* says whether a larger value (*more*) or a smaller one (*less*) is better. `rtfx gate` judges the
metrics that have a tolerance. A metric may get worse by its tolerance: a percentage of the old value, or percentage points.
`--tolerance` changes a tolerance, or gives one to another RTFx metric, a `batch_ms` metric or `energy.joules_per_hour`. For
any other metric, it is an error or makes the verdict INVALID.

| metric | unit | better | the gate's tolerance | meaning |
|---|---|---|---|---|
)";
  for (const Metric& m : metrics()) {
    const bool share = *m.unit == '\0';
    const std::string tolerance =
        m.tolerance ? fmt::format("{:g} {}", 100 * *m.tolerance, share ? "points" : "%") : "";
    page += fmt::format("| {} | {} | {} | {} | {} |\n", code(m.key), m.unit,
                        m.direction > 0   ? "more"
                        : m.direction < 0 ? "less"
                                          : "",
                        tolerance, cell(m.meaning));
  }
  return page;
}

void add_command(const CommandHelp& command, const std::string& path, std::string& page) {
  const size_t line = command.help.find('\n');
  std::string usage = path;
  for (const OptionHelp& o : command.options) {
    if (o.positional)
      usage += o.required ? " " + o.names.front() : fmt::format(" [{}]", o.names.front());
  }
  page += fmt::format("\n## {}\n\n`{} [OPTION ...]`\n\n{}\n", path, usage,
                      cell(command.help.substr(0, line)));
  if (line != std::string::npos) page += fmt::format("\n    {}\n", command.help.substr(line + 1));
  std::string rows;
  for (const OptionHelp& o : command.options) {
    std::string names = fmt::format("{}", fmt::join(o.names, ", "));
    if (names == "-h, --help") continue;
    if (!o.positional && !o.value.empty()) names += " " + o.value;
    const std::string value = o.required ? "required" : code(o.default_value);
    rows += fmt::format("| {} | {} | {} |\n", cell(code(names)), cell(value), cell(o.help));
  }
  if (!rows.empty()) page += "\n| argument | default | meaning |\n|---|---|---|\n" + rows;
  for (const CommandHelp& one : command.commands) add_command(one, path + " " + one.name, page);
}

std::string command_line_page(const CommandHelp& program) {
  std::string page = R"(# Command line

`rtfx --help` lists the commands, and `rtfx COMMAND --help` the options of one. A mistyped command, option or
name is an error that names the nearest one. The exit code is 0 for success, 1 for a failure, 2 for a wrong
command line and 130 after an interrupt. `rtfx gate` and `rtfx verify` also use 10 to 13. `rtfx run`, `rtfx bench`,
`rtfx reproduce` and `rtfx stream` also use 13. [Exit codes](output.md#exit-codes) says what each means.
)";
  for (const CommandHelp& command : program.commands)
    add_command(command, program.name + " " + command.name, page);
  return page;
}

using Page = std::string (*)(const CommandHelp&);
const std::map<std::string, Page> kPages = {
    {"configuration", configuration_page},
    {"decoders", decoders_page},
    {"metrics", metrics_page},
    {"command_line", command_line_page},
    {"journal", [](const CommandHelp&) { return journal_page(); }},
    {"journal_schema", [](const CommandHelp&) { return journal_schema(); }}};

}  // namespace

const std::vector<std::string>& reference_pages() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const auto& [name, page] : kPages) names.push_back(name);
    return names;
  }();
  return kNames;
}

std::string reference_page(const std::string& name, const CommandHelp& program) {
  const auto page = kPages.find(name);
  if (page == kPages.end()) throw unknown_name("reference", "page", name, reference_pages());
  return (name == "journal_schema" ? "" : kGenerated) + page->second(program);
}

namespace {

using nlohmann::json;

/// Returns the name with another character for its spaces.
std::string spaces_as(char replacement, std::string name) {
  std::ranges::replace(name, ' ', replacement);
  return name;
}

/// Returns, for example, "[word errors](#word-errors) or null" or "a list of: a number".
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

/// Returns text for a cell. A bar would end the cell.
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

/// Returns all objects that records hold, each once.
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

Each line of a journal is a JSON object, which is called a *record*. Its field `kind` says what it describes. This page
lists the fields of each kind of record, and then the objects that records contain. [The journal](../journal.md)
describes the files and the measurement of the figures. Other programs can check a line with the JSON Schema
[journal.schema.json](../journal.schema.json).

The column *present* says *always* if every record has the field. Any other field is left out if it does not apply, and
journals of earlier releases may lack it. A number that is NaN or infinite is written as null.
)";
  for (const record::Kind& kind : record::kinds()) {
    const ObjectInfo& info = kind.info();
    const bool of_case = std::ranges::any_of(
        info.fields, [](const FieldInfo& field) { return field.group == "a case"; });
    page += fmt::format(
        "\n## {}\n\nRecords with `\"kind\": \"{}\"` are lines of `{}`. {} They also have the "
        "fields of [every record](#every-record){}.\n",
        kind.name, kind.name, kind.file, info.about, of_case ? " and of [a case](#a-case)" : "");
    page += field_table(info.fields, "");
  }
  const std::pair<const char*, const char*> groups[] = {
      {"every record", "Records of all kinds have these fields."},
      {"a case",
       "A case is one decoder on one model and dataset, at one batch size and dtype. These fields "
       "name it."}};
  for (const auto& [group, about] : groups) {
    page += fmt::format("\n## {}\n\n{}\n", group, about);
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
