#include "harness/cli/list.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "algorithms/registry.h"
#include "base/error.h"
#include "harness/config/config.h"
#include "harness/results/metrics.h"

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

json to_json(const DecoderEntry& entry) {
  const Description d = entry.make(nullptr, "")->describe();
  const bool exact = d.exactness == Description::Exactness::exact;
  return {{"name", entry.name},
          {"summary", entry.summary},
          {"models", d.model_kinds},
          {"exactness", exact ? "exact" : "approximate"},
          {"options", to_json(entry.options)}};
}

void print_decoder(const DecoderEntry& entry) {
  fmt::print("{}\n    {}\n", entry.name, entry.summary);
  print_options(entry.options, "    ");
}

void print_decoders(bool as_json) {
  json list = json::array();
  for (const DecoderEntry* entry : decoder_entries()) {
    if (as_json) {
      list.push_back(to_json(*entry));
    } else {
      print_decoder(*entry);
    }
  }
  if (as_json) fmt::print("{}\n", list.dump(2));
}

void print_keys(const std::vector<OptionInfo>& keys, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", to_json(keys).dump(2));
  } else {
    print_options(keys, "");
  }
}

void print_metrics(bool as_json) {
  if (as_json) return fmt::print("{}\n", metrics_json().dump(2));
  for (const Metric& m : metrics())
    fmt::print("{:<24} {} [{}]\n", m.key, m.meaning, *m.unit == '\0' ? "share" : m.unit);
}

/// The keys that are `name` or members of it.
std::vector<OptionInfo> keys_of(const std::string& name) {
  std::vector<OptionInfo> keys = config_keys().info();
  std::erase_if(keys, [&](const OptionInfo& key) {
    return key.name != name && !key.name.starts_with(name + ".");
  });
  return keys;
}

}  // namespace

void print_list(const std::string& what, bool as_json) {
  if (what == "decoders") return print_decoders(as_json);
  if (what == "config") return print_keys(config_keys().info(), as_json);
  if (what == "metrics") return print_metrics(as_json);
  std::vector<std::string> allowed = {"decoders", "config", "metrics"};
  for (const DecoderEntry* entry : decoder_entries()) {
    allowed.push_back(entry->name);
    if (entry->name != what) continue;
    if (as_json) {
      fmt::print("{}\n", to_json(*entry).dump(2));
    } else {
      print_decoder(*entry);
    }
    return;
  }
  const auto keys = keys_of(what);
  if (keys.empty()) throw unknown_name("list", "decoder or key", what, allowed);
  print_keys(keys, as_json);
}

}  // namespace rtfx
