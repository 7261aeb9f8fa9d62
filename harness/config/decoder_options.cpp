#include "harness/config/decoder_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace rtfx {

namespace {

using nlohmann::json;

using Path = std::vector<std::string>;

/// Returns a pointer from keys, which may hold characters that the pointer's text would have to
/// escape.
json::json_pointer pointer(const Path& path) {
  json::json_pointer made;
  for (const std::string& key : path) made.push_back(key);
  return made;
}

/// Returns lm, path for "lm.path", a name in a table of options.
Path keys_of(const std::string& name) {
  Path path;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = name.find('.', begin);
    path.push_back(name.substr(begin, end - begin));
  }
  return path;
}

/// Returns the keys that lead to the first option that is a list of values; empty if there is none.
/// `before` is the name of the object, followed by a dot.
Path first_list(const json& options, const std::vector<OptionInfo>& known,
                const std::string& before = "") {
  if (!options.is_object()) return {};
  for (const auto& [key, value] : options.items()) {
    const std::string name = before + key;
    const bool is_list = std::ranges::any_of(known, [&](const OptionInfo& option) {
      return option.name == name && option.allowed.starts_with('[');
    });
    if (is_list) continue;
    if (value.is_array()) return {key};
    if (Path inner = first_list(value, known, name + "."); !inner.empty()) {
      inner.insert(inner.begin(), key);
      return inner;
    }
  }
  return {};
}

}  // namespace

std::vector<OptionValues> expand_lists(const json& options, const std::string& where,
                                       const std::vector<OptionInfo>& known) {
  const Path path = first_list(options, known);
  if (path.empty()) return {{options, ""}};
  const json values = options.at(pointer(path));
  if (values.empty()) {
    throw UserError(where + pointer(path).to_string(), "[] is not allowed",
                    "give at least one value");
  }
  std::vector<OptionValues> all;
  for (const json& value : values) {
    json one = options;
    one[pointer(path)] = value;
    const std::string taken =
        fmt::format("[{}={}]", fmt::join(path, "."),
                    value.is_string() ? value.get<std::string>() : value.dump());
    for (OptionValues& rest : expand_lists(one, where, known))
      all.push_back({std::move(rest.options), taken + rest.suffix});
  }
  return all;
}

void set_option(json& options, const std::string& name, json value) {
  options[pointer(keys_of(name))] = std::move(value);
}

}  // namespace rtfx
