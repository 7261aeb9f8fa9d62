#include "harness/config/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "base/json.h"
#include "base/numbers.h"
#include "models/formats/hub.h"

namespace rtfx {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Returns the member `key` of an object, or the element of a list. Makes it if there is none yet.
/// A list grows by at most one element. Appends the key to `pointer`.
json* member(json& value, const std::string& key, json::json_pointer& pointer,
             const std::string& where) {
  if (value.is_object() || (value.is_null() && key != "0")) {
    pointer /= key;
    return &value[key];
  }
  if (!value.is_array() && !value.is_null())
    throw UserError(where,
                    fmt::format("no such place in the configuration: what '{}' is to be a "
                                "part of is a single value",
                                key),
                    "check the path");
  const auto index = parse_number<size_t>(key);
  if (!index || *index > value.size()) {
    throw UserError(
        where,
        fmt::format("no such place in the configuration: '{}' in a list of {}", key, value.size()),
        fmt::format("give an index 0..{}", value.size()));
  }
  pointer /= *index;
  return &value[*index];
}

/// Returns the JSON of a text, or else the text itself, which need not be quoted.
json override_value(const std::string& text, const std::string& where) {
  const bool structured = text.starts_with('{') || text.starts_with('[');
  if (structured || json::accept(text)) return parse_json(text, where);
  return text;
}

/// Returns whether `key` is the index of an entry that stands for a whole list, as in
/// {"datasets": {"id": "d", ...}}.
bool is_list_of_one(const json& entry, const std::string& list, const std::string& key) {
  constexpr std::array kLists = {"models", "datasets", "decoders", "batch_sizes", "batch_seconds",
                                 "dtypes", "plugins",  "prepare",  "tune"};
  return key == "0" && !entry.is_array() && !entry.is_null() && std::ranges::count(kLists, list);
}

/// Replaces a text in the list of models or decoders by the object for which it is short.
void write_out(json& entry, const std::string& list) {
  if (!entry.is_string()) return;
  if (list == "models") entry = json::object({{"path", std::move(entry)}});
  if (list == "decoders") entry = json::object({{"name", std::move(entry)}});
}

/// Sets a.b.0.c in the document, and returns the pointer to the value.
std::string apply(json& document, const std::string& text) {
  const std::string where = "--set " + text;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError(where, "not of the form a.b=value",
                    "for example --set protocol.measured_rounds=5");
  }
  json* place = &document;
  json::json_pointer pointer;
  std::istringstream parts(text.substr(0, equals));
  std::vector<std::string> keys;
  for (std::string key; std::getline(parts, key, '.');) keys.push_back(key);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i == 1 && is_list_of_one(*place, keys[0], keys[1])) continue;
    const bool is_entry = i == 2 && keys[1].find_first_not_of("0123456789") == std::string::npos;
    if (is_entry) write_out(*place, keys[0]);
    place = member(*place, keys[i], pointer, where);
  }
  *place = override_value(text.substr(equals + 1), where);
  return pointer.to_string();
}

/// Visits the value, or each element if it is a list.
void for_each_element(const std::string& where, json& value, const VisitPath& visit) {
  if (!value.is_array()) return visit(where, value);
  for (size_t i = 0; i < value.size(); ++i)
    for_each_element(fmt::format("{}/{}", where, i), value[i], visit);
}

/// Visits the texts at the dotted name, such as "lm.path", in `value`. An empty name stands for
/// `value`.
void for_each_text(std::string_view name, const std::string& where, json& value,
                   const VisitPath& visit) {
  for_each_element(where, value, [&](const std::string& place, json& element) {
    if (name.empty()) {
      if (element.is_string() && element != "") visit(place, element);
      return;
    }
    const size_t dot = name.find('.');
    const std::string key(name.substr(0, dot));
    const auto rest = dot == name.npos ? std::string_view() : name.substr(dot + 1);
    if (element.is_object() && element.contains(key))
      for_each_text(rest, fmt::format("{}/{}", place, key), element[key], visit);
  });
}

/// Replaces a model's name on huggingface.co by the checkpoint in the cache of `hf download`. If a
/// folder of such a path exists beside the configuration, the text is a path and not a name.
void find_models(json& document, const Origins& origins) {
  ErrorList errors;
  for (const char* key : {"models", "models.path"}) {
    for_each_text(key, origins.root(), document, [&](const std::string& where, json& model) {
      const auto given = model.get<std::string>();
      const fs::path path = origins.opened(where, given);
      std::error_code error;
      if (fs::exists(path.parent_path(), error) || !hub_name(given)) return;
      errors.run([&] {
        try {
          model = find_checkpoint(given).string();
        } catch (const UserError& error) {
          throw UserError(where, error.what());
        }
      });
    });
  }
  errors.throw_any();
}

}  // namespace

void Origins::add(const std::string& pointer, const std::string& text) {
  overrides_.push_back(text);
  std::erase_if(set_, [&](const auto& inner) { return inner.first.starts_with(pointer + "/"); });
  set_[pointer] = text;
}

const std::string* Origins::override_at(std::string_view where) const {
  const std::string begin = root();
  if (!where.starts_with(begin)) return nullptr;
  std::string_view pointer = where.substr(begin.size());
  for (size_t end = pointer.size(); end != pointer.npos && end != 0;) {
    pointer = pointer.substr(0, end);
    if (const auto found = set_.find(pointer); found != set_.end()) return &found->second;
    end = pointer.rfind('/');
  }
  return nullptr;
}

std::string Origins::relative(const std::string& where, const std::string& path) const {
  if (override_at(where) == nullptr || fs::path(path).is_absolute()) return path;
  const fs::path folder = fs::absolute(file_).parent_path().lexically_normal();
  return fs::absolute(path).lexically_normal().lexically_relative(folder).string();
}

std::string Origins::opened(const std::string& where, const std::string& path) const {
  const fs::path whole = file_.parent_path() / relative(where, path);
  const fs::path normal = whole.lexically_normal();
  if (override_at(where) != nullptr || whole == normal) return normal.string();
  // Behind a link to a folder, ".." is the parent of that folder and not of the link.
  std::error_code error;
  const fs::path folder = fs::absolute(whole).parent_path();
  const bool differs = fs::exists(folder, error) &&
                       !fs::equivalent(folder, fs::absolute(normal).parent_path(), error);
  return (differs ? whole : normal).string();
}

UserError Origins::named(const UserError& error) const {
  const std::string* text = override_at(error.where());
  return text == nullptr ? error : UserError("--set " + *text, error.what());
}

void Origins::throw_named(const UserError& error) const {
  ErrorList found, all;
  found.add(error);
  for (const UserError& one : found.all()) all.add(named(one));
  all.throw_any();
  throw error;
}

Document::Document(json given, const fs::path& file, const std::vector<std::string>& overrides)
    : value(std::move(given)), origins(file) {
  ErrorList errors;
  for (const std::string& text : overrides)
    errors.run([&] { origins.add(apply(value, text), text); });
  errors.throw_any();
  origins.naming_overrides([&] { find_models(value, origins); });
}

Document read_document(const fs::path& file, const std::vector<std::string>& overrides) {
  if (fs::is_directory(file)) throw UserError(file.string(), "is a directory", "give a JSON file");
  return {read_json_file(file), file, overrides};
}

void for_each_path(const std::vector<OptionInfo>& table, const std::string& where, json& object,
                   const VisitPath& visit) {
  for (const OptionInfo& option : table)
    if (option.is_file) for_each_text(option.name, where, object, visit);
}

void for_each_path_of_document(const std::vector<OptionInfo>& keys, const std::string& where,
                               json& document, const VisitPath& visit) {
  for_each_path(keys, where, document, visit);
  if (!document.is_object() || !document.contains("decoders")) return;
  const auto entries = decoder_entries();
  for_each_element(
      where + "/decoders", document["decoders"], [&](const std::string& place, json& decoder) {
        if (!decoder.is_object() || !decoder.contains("options")) return;
        const auto entry = std::ranges::find_if(entries, [&](const auto* known) {
          return decoder.value("name", json()) == known->name;
        });
        if (entry == entries.end()) return;
        for_each_path((*entry)->options, place + "/options", decoder["options"], visit);
      });
}

json with_relative_paths(const std::vector<OptionInfo>& keys, const Document& document) {
  json value = document.value;
  const Origins& origins = document.origins;
  for_each_path_of_document(keys, origins.root(), value, [&](const std::string& where, json& path) {
    path = origins.relative(where, path.get<std::string>());
  });
  return value;
}

}  // namespace rtfx
