// Options of a decoder: a flat struct, filled from JSON by name through one table of fields.
//
//   struct Options { int64_t max_symbols = 10; std::string score_kind = "logit"; };
//   const OptionTable<Options> kOptions{{
//       option("max_symbols", &Options::max_symbols, "tokens per frame", 1, 1000),
//       option("score_kind", &Options::score_kind, "what a score sums", {"logit", "logprob"})}};
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// What `rtfx list` prints about one option.
struct OptionInfo {
  std::string name;
  std::string help;
  std::string allowed;  // "true | false", "1..1000", "logit | logprob"
  nlohmann::json default_value;
};

namespace detail {
bool read_bool(const nlohmann::json& value, std::string_view where);
int64_t read_integer(const nlohmann::json& value, std::string_view where, int64_t low,
                     int64_t high);
std::string read_choice(const nlohmann::json& value, std::string_view where,
                        const std::vector<std::string>& allowed);
/// null means no options. Throws UserError for any other non-object and for the first key that is
/// not in `names`.
void check_keys(const nlohmann::json& object, std::string_view where,
                const std::vector<std::string>& names);
std::string range_text(int64_t low, int64_t high);
std::string choice_text(const std::vector<std::string>& allowed);
}  // namespace detail

template <class Options>
struct OptionField {
  std::string name, help, allowed;
  std::function<void(Options&, const nlohmann::json&, std::string_view where)> set;
  std::function<nlohmann::json(const Options&)> get;
};

template <class Options>
OptionField<Options> option(std::string name, bool Options::*member, std::string help) {
  return {std::move(name), std::move(help), "true | false",
          [member](Options& o, const nlohmann::json& v, std::string_view where) {
            o.*member = detail::read_bool(v, where);
          },
          [member](const Options& o) { return nlohmann::json(o.*member); }};
}

template <class Options>
OptionField<Options> option(std::string name, int64_t Options::*member, std::string help,
                            int64_t low, int64_t high = std::numeric_limits<int64_t>::max()) {
  return {std::move(name), std::move(help), detail::range_text(low, high),
          [member, low, high](Options& o, const nlohmann::json& v, std::string_view where) {
            o.*member = detail::read_integer(v, where, low, high);
          },
          [member](const Options& o) { return nlohmann::json(o.*member); }};
}

template <class Options>
OptionField<Options> option(std::string name, std::string Options::*member, std::string help,
                            std::vector<std::string> allowed) {
  std::string text = detail::choice_text(allowed);
  return {std::move(name), std::move(help), std::move(text),
          [member, allowed](Options& o, const nlohmann::json& v, std::string_view where) {
            o.*member = detail::read_choice(v, where, allowed);
          },
          [member](const Options& o) { return nlohmann::json(o.*member); }};
}

template <class Options>
struct OptionTable {
  std::vector<OptionField<Options>> fields;

  /// `where` names the object in messages (a JSON pointer such as "/decoders/0/options").
  Options fill(const nlohmann::json& object, std::string_view where) const {
    std::vector<std::string> names;
    for (const auto& field : fields) names.push_back(field.name);
    detail::check_keys(object, where, names);
    Options options;
    for (const auto& field : fields) {
      if (auto it = object.find(field.name); it != object.end()) {
        field.set(options, *it, std::string(where) + "/" + field.name);
      }
    }
    return options;
  }

  nlohmann::json resolved(const Options& options) const {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& field : fields) object[field.name] = field.get(options);
    return object;
  }

  std::vector<OptionInfo> info() const {
    std::vector<OptionInfo> list;
    for (const auto& f : fields) list.push_back({f.name, f.help, f.allowed, f.get(Options{})});
    return list;
  }
};

}  // namespace rtfx
