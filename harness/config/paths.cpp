#include "harness/config/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "algorithms/registry.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// Visits the value, or each element of a list.
void for_each_element(const std::string& where, json& value, const VisitPath& visit) {
  if (!value.is_array()) return visit(where, value);
  for (size_t i = 0; i < value.size(); ++i)
    for_each_element(fmt::format("{}/{}", where, i), value[i], visit);
}

/// Visits the texts at the dotted name "lm.path" in `value`; an empty name stands for `value`.
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

}  // namespace

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
