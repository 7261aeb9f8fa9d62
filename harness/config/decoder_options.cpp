#include "harness/config/decoder_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "algorithms/registry.h"
#include "base/error.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// "lm.path" -> /lm/path
json::json_pointer pointer(std::string dotted) {
  std::replace(dotted.begin(), dotted.end(), '.', '/');
  return json::json_pointer("/" + dotted);
}

/// The dotted name of the first option that is a list.
std::optional<std::string> first_list(const json& options) {
  if (!options.is_object()) return std::nullopt;
  for (const auto& [key, value] : options.items()) {
    if (value.is_array()) return key;
    if (const auto inner = first_list(value)) return key + "." + *inner;
  }
  return std::nullopt;
}

}  // namespace

std::vector<OptionValues> expand_lists(const json& options, const std::string& where) {
  const auto name = first_list(options);
  if (!name) return {{options, ""}};
  const json values = options.at(pointer(*name));
  if (values.empty()) {
    throw UserError(where + pointer(*name).to_string(), "[] is not allowed",
                    "give at least one value");
  }
  std::vector<OptionValues> all;
  for (const json& value : values) {
    json one = options;
    one[pointer(*name)] = value;
    const std::string taken =
        fmt::format("[{}={}]", *name, value.is_string() ? value.get<std::string>() : value.dump());
    for (OptionValues& rest : expand_lists(one, where))
      all.push_back({std::move(rest.options), taken + rest.suffix});
  }
  return all;
}

void set_option(json& options, const std::string& name, json value) {
  options[pointer(name)] = std::move(value);
}

void for_each_file(const std::string& decoder, json& options,
                   const std::function<void(json& file)>& visit) {
  for (const OptionInfo& option : find_decoder(decoder, decoder).options) {
    if (!option.is_file || !options.is_object()) continue;
    const auto at = pointer(option.name);
    if (options.contains(at) && options[at].is_string()) visit(options[at]);
  }
}

}  // namespace rtfx
