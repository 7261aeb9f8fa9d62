// Options of a decoder: a flat struct, filled from JSON by name through one table of fields.
//
//   struct Options { int64_t max_symbols = 10; std::string score_kind = "logit"; };
//   const OptionTable<Options> kOptions{{
//       option("max_symbols", &Options::max_symbols, "tokens per frame", 1, 1000),
//       option("score_kind", &Options::score_kind, "what a score sums", {"logit", "logprob"})}};
//
// What several decoders share can be a struct and a table of its own: an optional member, given as
// an object ({"lm": {"path": ...}}) and listed with a dot ("lm.path").
//
// An option that had another name, or other values, keeps them for one release:
//   option("loop", &Options::loop, "who drives the loops", {"host", "graph"})
//       .formerly("graphs", {{"none", "host"}})
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// How an option was called in an earlier release.
struct FormerName {
  std::string name;  // that of the option itself where only its values have other names
  std::map<std::string, std::string> values = {};  // former -> present; others are as they were
};

/// What `rtfx list` prints about one option.
struct OptionInfo {
  std::string name;
  std::string help;
  std::string allowed;  // "true | false", "1..1000", "logit | logprob"
  nlohmann::json default_value;
  bool is_path = false;  // names a file; relative to the configuration that it stands in
  std::vector<FormerName> formerly = {};  // not printed
};

/// `object` with the present names of options and values. For each former one that it uses there is
/// a notice on standard error, once in a process. Two options may share a former name, which then
/// sets both. Throws UserError where an option is given under two names; `where` names `object`.
nlohmann::json with_present_names(nlohmann::json object, std::string_view where,
                                  const std::vector<OptionInfo>& options);

/// From now on there are no such notices: for a child whose parent has given them.
void silence_notices();

namespace detail {
bool read_bool(const nlohmann::json& value, std::string_view where);
int64_t read_integer(const nlohmann::json& value, std::string_view where, int64_t low,
                     int64_t high);
double read_number(const nlohmann::json& value, std::string_view where, double low, double high);
/// The file must be there.
std::filesystem::path read_path(const nlohmann::json& value, std::string_view where);
std::string read_choice(const nlohmann::json& value, std::string_view where,
                        const std::vector<std::string>& allowed);
/// null means no options. Throws UserError for any other non-object and for the first key that is
/// not in `names`.
void check_keys(const nlohmann::json& object, std::string_view where,
                const std::vector<std::string>& names);
[[noreturn]] void missing(std::string_view where, const std::string& name);
std::string range_text(int64_t low, int64_t high);
std::string number_text(double low, double high);
std::string choice_text(const std::vector<std::string>& allowed);
}  // namespace detail

template <class Options>
struct OptionField {
  std::string name, help, allowed;
  std::function<void(Options&, const nlohmann::json&, std::string_view where)> set;
  std::function<nlohmann::json(const Options&)> get;
  bool is_path = false;                  // a file, which must be given
  std::vector<OptionInfo> members = {};  // of an object
  std::vector<FormerName> formers = {};

  /// The same option, which is also known by the name it had; may be called for several names, and
  /// by several options for one name.
  OptionField formerly(std::string former, std::map<std::string, std::string> values = {}) const {
    OptionField field = *this;
    field.formers.push_back({std::move(former), std::move(values)});
    return field;
  }
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
OptionField<Options> option(std::string name, double Options::*member, std::string help, double low,
                            double high) {
  return {std::move(name), std::move(help), detail::number_text(low, high),
          [member, low, high](Options& o, const nlohmann::json& v, std::string_view where) {
            o.*member = detail::read_number(v, where, low, high);
          },
          [member](const Options& o) { return nlohmann::json(o.*member); }};
}

/// A file: the one kind of option without a default.
template <class Options>
OptionField<Options> option(std::string name, std::filesystem::path Options::*member,
                            std::string help) {
  return {std::move(name),
          std::move(help),
          "a file; must be given",
          [member](Options& o, const nlohmann::json& v, std::string_view where) {
            o.*member = detail::read_path(v, where);
          },
          [member](const Options& o) { return nlohmann::json((o.*member).string()); },
          /*is_path=*/true};
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

  /// `where` names the object in messages (a JSON pointer such as "/decoders/0/options"). Of null,
  /// the defaults: enough for describe(), though files that must be given are not.
  Options fill(const nlohmann::json& given, std::string_view where) const {
    const nlohmann::json object = with_present_names(given, where, info());
    std::vector<std::string> names;
    for (const auto& field : fields) names.push_back(field.name);
    detail::check_keys(object, where, names);
    Options options;
    for (const auto& field : fields) {
      if (auto it = object.find(field.name); it != object.end()) {
        field.set(options, *it, std::string(where) + "/" + field.name);
      } else if (field.is_path && !object.is_null()) {
        detail::missing(where, field.name);
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
    for (const auto& f : fields) {
      const nlohmann::json value = f.is_path ? nlohmann::json() : f.get(Options{});
      list.push_back({f.name, f.help, f.allowed, value, f.is_path, f.formers});
      for (OptionInfo member : f.members) {
        member.name = f.name + "." + member.name;
        list.push_back(std::move(member));
      }
    }
    return list;
  }
};

/// An object of options by itself; null, the default, is none. `table` must outlive the field.
template <class Options, class Members>
OptionField<Options> option(std::string name, std::optional<Members> Options::*member,
                            std::string help, const OptionTable<Members>& table) {
  return {std::move(name),
          std::move(help),
          "null | an object",
          [member, &table](Options& o, const nlohmann::json& v, std::string_view where) {
            if (v.is_null()) {
              (o.*member).reset();
            } else {
              o.*member = table.fill(v, where);
            }
          },
          [member, &table](const Options& o) {
            return o.*member ? table.resolved(*(o.*member)) : nlohmann::json();
          },
          /*is_path=*/false,
          table.info()};
}

}  // namespace rtfx
