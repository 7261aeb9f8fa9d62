#include "harness/cli/list.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "algorithms/registry.h"
#include "harness/config/config.h"

namespace rtfx {
namespace {

using nlohmann::json;

json to_json(const std::vector<OptionInfo>& options) {
  json list = json::array();
  for (const OptionInfo& o : options) {
    list.push_back(
        {{"name", o.name}, {"help", o.help}, {"allowed", o.allowed}, {"default", o.default_value}});
    if (!o.default_text.empty()) list.back()["default_text"] = o.default_text;
  }
  return list;
}

void print_options(const std::vector<OptionInfo>& options, const char* indent) {
  for (const OptionInfo& o : options) {
    fmt::print("{}{:<24} {} [{}; default {}]\n", indent, o.name, o.help, o.allowed, default_of(o));
  }
}

json decoders() {
  json list = json::array();
  for (const DecoderEntry* entry : decoder_entries()) {
    const Description d = entry->make(nullptr, "")->describe();
    const bool exact = d.exactness == Description::Exactness::exact;
    list.push_back({{"name", entry->name},
                    {"summary", entry->summary},
                    {"models", d.model_kinds},
                    {"exactness", exact ? "exact" : "approximate"},
                    {"options", to_json(entry->options)}});
  }
  return list;
}

}  // namespace

void print_list(const std::string& what, bool as_json) {
  const bool keys = what == "config";
  if (as_json) {
    fmt::print("{}\n", (keys ? to_json(config_keys().info()) : decoders()).dump(2));
  } else if (keys) {
    print_options(config_keys().info(), "");
  } else {
    for (const DecoderEntry* entry : decoder_entries()) {
      fmt::print("{}\n    {}\n", entry->name, entry->summary);
      print_options(entry->options, "    ");
    }
  }
}

}  // namespace rtfx
