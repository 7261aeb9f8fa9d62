#include "harness/config/overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <ranges>
#include <sstream>

#include "algorithms/registry.h"
#include "base/json_file.h"
#include "harness/config/decoder_options.h"

namespace rtfx {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// "/a/b/0/c" of "a.b.0.c=value".
std::string pointer_of(const std::string& text) {
  json::json_pointer pointer;
  std::istringstream keys(text.substr(0, text.find('=')));
  for (std::string key; std::getline(keys, key, '.');) pointer /= key;
  return pointer.to_string();
}

/// Whether `pointer` is `above` or lies in it.
bool is_within(const std::string& pointer, const std::string& above) {
  return pointer.starts_with(above) &&
         (pointer.size() == above.size() || pointer[above.size()] == '/');
}

/// The member `key` of an object, or the element of a list; made where there is none yet. A list
/// grows by one element at most.
json* member(json& value, const std::string& key, const std::string& where) {
  if (value.is_object() || (value.is_null() && key != "0")) return &value[key];
  if (!value.is_array() && !value.is_null())
    throw UserError(where,
                    fmt::format("no such place in the configuration: what '{}' is to be a "
                                "part of is a single value",
                                key),
                    "check the path");
  size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || end != key.data() + key.size() || index > value.size()) {
    throw UserError(
        where,
        fmt::format("no such place in the configuration: '{}' in a list of {}", key, value.size()),
        fmt::format("give an index 0..{}", value.size()));
  }
  return &value[index];
}

/// JSON, or else a text, which need not be quoted.
json override_value(const std::string& text, const std::string& where) {
  const bool structured = text.starts_with('{') || text.starts_with('[');
  if (structured || json::accept(text)) return parse_json(text, where);
  return text;
}

/// Sets a.b.0.c in the document, making objects on the way.
void apply(json& document, const std::string& text) {
  const std::string where = "--set " + text;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError(where, "not of the form a.b=value",
                    "for example --set protocol.measured_rounds=5");
  }
  json* place = &document;
  std::istringstream keys(text.substr(0, equals));
  for (std::string key; std::getline(keys, key, '.');) place = member(*place, key, where);
  *place = override_value(text.substr(equals + 1), where);
}

using VisitPath = std::function<void(const std::string& pointer, json& path)>;

/// A value, or each of a list of them.
void each(json& values, const std::string& pointer, const VisitPath& visit) {
  if (!values.is_array()) return visit(pointer, values);
  for (size_t i = 0; i < values.size(); ++i) visit(fmt::format("{}/{}", pointer, i), values[i]);
}

/// Every value of the document that is a path relative to the configuration's folder.
void each_path(json& document, const VisitPath& visit) {
  const auto member = [&](json& object, const std::string& pointer, const char* key) {
    if (object.is_object() && object.contains(key))
      each(object[key], fmt::format("{}/{}", pointer, key), visit);
  };
  const auto elements = [&](const char* list, const VisitPath& take) {
    if (document.is_object() && document.contains(list))
      each(document[list], fmt::format("/{}", list), take);
  };
  elements("plugins", visit);
  elements("models", [&](const std::string& pointer, json& model) {
    if (model.is_string()) return visit(pointer, model);
    member(model, pointer, "path");
    if (model.is_object() && model.contains("fallback"))
      member(model["fallback"], pointer + "/fallback", "decoder");
  });
  elements("datasets", [&](const std::string& pointer, json& dataset) {
    for (const char* key : {"manifest", "fallback", "librispeech", "files"})
      member(dataset, pointer, key);
  });
  elements("prepare", [&](const std::string& pointer, json& entry) {
    for (const char* key : {"graph", "words", "lexicon", "lm"}) member(entry, pointer, key);
  });
  elements("decoders", [&](const std::string& pointer, json& decoder) {
    const auto entries = decoder_entries();
    const bool is_known = decoder.is_object() && decoder.contains("options") &&
                          std::any_of(entries.begin(), entries.end(), [&](const auto* entry) {
                            return decoder.value("name", json()) == entry->name;
                          });
    if (!is_known) return;
    const json flat = decoder["options"].flatten();
    for_each_file(decoder["name"], decoder["options"], [&](json& path) {
      for (const auto& [at, value] : flat.items()) {
        if (value == path) return visit(fmt::format("{}/options{}", pointer, at), path);
      }
    });
  });
}

}  // namespace

void apply_overrides(json& document, const fs::path& file,
                     const std::vector<std::string>& overrides, ErrorList& errors) {
  for (const std::string& text : overrides) errors.run([&] { apply(document, text); });
  const fs::path folder = fs::absolute(file).parent_path().lexically_normal();
  each_path(document, [&](const std::string& pointer, json& value) {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) return;
    const fs::path path = value.get<std::string>();
    for (const std::string& text : overrides) {
      if (path.is_absolute() || !is_within(pointer, pointer_of(text))) continue;
      value = fs::absolute(path).lexically_normal().lexically_relative(folder).string();
      return;
    }
  });
}

UserError with_its_override(const UserError& error, const fs::path& file,
                            const std::vector<std::string>& overrides) {
  const std::string root = file.string() + "#";
  if (!error.where().starts_with(root)) return error;
  const std::string pointer = error.where().substr(root.size());
  for (const std::string& text : overrides | std::views::reverse) {  // the last one counts
    if (is_within(pointer, pointer_of(text))) return {"--set " + text, error.what()};
  }
  return error;
}

}  // namespace rtfx
