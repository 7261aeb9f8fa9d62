// Options: a flat struct, filled from JSON by name through one table of fields, of which reading,
// checking, listing and documentation follow. Decoders and configurations have such tables.
//
//   struct Options { int64_t max_symbols = 10; std::string score_kind = "logit"; };
//   const OptionTable<Options> kOptions{{
//       option("max_symbols", &Options::max_symbols, "Tokens per frame.", 1, 1000),
//       option("score_kind", &Options::score_kind, "Kind of score.", {"logit", "logprob"})}};
//
// Options that several decoders share can be a struct with a table of its own. They are an optional
// member, which is given as an object ({"lm": {"path": ...}}) and listed with a dot ("lm.path"). Or
// the decoders' structs derive from it, and fields_with() puts its fields before theirs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace rtfx {

/// A description of one option, which `rtfx list` prints.
struct OptionInfo {
  std::string name;
  std::string help;
  std::string allowed;  // "true | false", "an integer 1..1000", "logit | logprob"
  nlohmann::json default_value;
  std::string default_text;  // in words, where no value says what holds without the option
  bool is_file = false;      // relative to the configuration that it stands in
};

/// "10", "the period", "required"; what is printed as the default.
std::string default_of(const OptionInfo& option);

template <class Options>
struct OptionField {
  std::string name, help, allowed;
  std::function<void(Options&, const JsonView&)> set;
  std::function<nlohmann::json(const Options&)> get;  // null: nothing is set
  bool is_file = false;
  std::vector<OptionInfo> members = {};  // of an object, or of each one in a list of objects
  bool is_required = false;
  std::string default_text = {};

  OptionField required() const {
    OptionField field = *this;
    field.is_required = true;
    field.default_text = "required";
    return field;
  }

  /// Says in words what holds where the option is not given.
  OptionField by_default(std::string text) const {
    OptionField field = *this;
    field.default_text = std::move(text);
    return field;
  }
};

namespace detail {
std::string choice_text(const std::vector<std::string>& allowed);
/// Without members that are null, "" or [].
nlohmann::json without_empty(nlohmann::json object);

/// A field whose value `read` makes of the JSON.
template <class Options, class Value, class Read>
OptionField<Options> field(std::string name, Value Options::*member, std::string help,
                           std::string allowed, Read read) {
  return {std::move(name), std::move(help), std::move(allowed),
          [member, read](Options& o, const JsonView& v) { o.*member = read(v); },
          [member](const Options& o) { return nlohmann::json(o.*member); }};
}
}  // namespace detail

template <class Options>
OptionField<Options> option(std::string name, bool Options::*member, std::string help) {
  return detail::field(std::move(name), member, std::move(help), "true | false",
                       [](const JsonView& v) { return v.boolean(); });
}

/// Where the struct's own value is out of range, that stands for none.
template <class Options>
OptionField<Options> option(std::string name, int64_t Options::*member, std::string help,
                            int64_t low, int64_t high = std::numeric_limits<int64_t>::max()) {
  auto field =
      detail::field(std::move(name), member, std::move(help), JsonView::range_text(low, high),
                    [low, high](const JsonView& v) { return v.integer(low, high); });
  field.get = [member, low](const Options& o) {
    return o.*member < low ? nlohmann::json() : nlohmann::json(o.*member);
  };
  return field;
}

template <class Options>
OptionField<Options> option(std::string name, double Options::*member, std::string help, double low,
                            double high) {
  return detail::field(std::move(name), member, std::move(help), JsonView::range_text(low, high),
                       [low, high](const JsonView& v) { return v.number(low, high); });
}

template <class Options>
OptionField<Options> option(std::string name, std::string Options::*member, std::string help,
                            std::vector<std::string> allowed) {
  std::string text = detail::choice_text(allowed);
  return detail::field(
      std::move(name), member, std::move(help), std::move(text),
      [allowed = std::move(allowed)](const JsonView& v) { return v.choice(allowed); });
}

/// A file, which must be given and exist.
template <class Options>
OptionField<Options> option(std::string name, std::filesystem::path Options::*member,
                            std::string help) {
  auto field = detail::field(std::move(name), member, std::move(help), "a file",
                             [](const JsonView& v) { return v.file(); });
  field.get = [member](const Options& o) { return nlohmann::json((o.*member).string()); };
  field.is_file = true;
  return field.required();
}

template <class Options>
struct OptionTable {
  std::vector<OptionField<Options>> fields;
  const char* kind = "option";  // what a field is called in messages

  /// Null, of an option too, is as good as absent.
  Options fill(const JsonView& given) const {
    Options options;
    fill_into(options, given);
    return options;
  }

  /// `where` names the object in messages (a JSON pointer such as "/decoders/0/options"). Of null,
  /// the defaults: enough for describe(), though options that must be given are not.
  Options fill(const nlohmann::json& object, std::string_view where) const {
    return object.is_null() ? Options() : fill(JsonView(object, std::string(where)));
  }

  /// Leaves what is not given as it is. Throws the errors of all fields, once those without have
  /// been set.
  void fill_into(Options& options, const JsonView& given) const {
    std::vector<std::string> names;
    for (const auto& field : fields) names.push_back(field.name);
    ErrorList errors;
    errors.run([&] { given.check_keys(names, kind); });
    for (const auto& field : fields) {
      if (!given.value().is_object()) break;
      errors.run([&] {
        if (const auto value = given.find(field.name)) {
          field.set(options, *value);
        } else if (field.is_required) {
          given.at(field.name);
        }
      });
    }
    errors.throw_any();
  }

  nlohmann::json resolved(const Options& options) const {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& field : fields) object[field.name] = field.get(options);
    return object;
  }

  std::vector<OptionInfo> info() const {
    std::vector<OptionInfo> list;
    for (const auto& f : fields) {
      const nlohmann::json value = f.is_required ? nlohmann::json() : f.get(Options{});
      list.push_back({f.name, f.help, f.allowed, value, f.default_text, f.is_file});
      for (OptionInfo member : f.members) {
        member.name = f.name + "." + member.name;
        list.push_back(std::move(member));
      }
    }
    return list;
  }
};

/// The fields of `shared`, a struct from which `Options` derives, and behind them its own.
template <class Options, class Shared>
std::vector<OptionField<Options>> fields_with(const OptionTable<Shared>& shared,
                                              std::vector<OptionField<Options>> own) {
  std::vector<OptionField<Options>> all;
  for (const OptionField<Shared>& f : shared.fields) {
    all.push_back({f.name, f.help, f.allowed, f.set, f.get, f.is_file, f.members, f.is_required,
                   f.default_text});
  }
  std::ranges::move(own, std::back_inserter(all));
  return all;
}

/// An object of options by itself; null, the default, is none. `table` must outlive the field.
template <class Options, class Members>
OptionField<Options> option(std::string name, std::optional<Members> Options::*member,
                            std::string help, const OptionTable<Members>& table) {
  return {std::move(name),
          std::move(help),
          "null | an object",
          [member, &table](Options& o, const JsonView& v) { o.*member = table.fill(v); },
          [member, &table](const Options& o) {
            return o.*member ? table.resolved(*(o.*member)) : nlohmann::json();
          },
          /*is_file=*/false,
          table.info()};
}

/// An object of options that is always there, with its own defaults.
template <class Options, class Members>
OptionField<Options> option(std::string name, Members Options::*member, std::string help,
                            const OptionTable<Members>& table) {
  return {std::move(name),
          std::move(help),
          "an object",
          [member, &table](Options& o, const JsonView& v) { table.fill_into(o.*member, v); },
          [member, &table](const Options& o) { return table.resolved(o.*member); },
          /*is_file=*/false,
          table.info(),
          /*is_required=*/false,
          "as below"};
}

/// Any text but an empty one, which stands for none. `Text`: std::string or std::filesystem::path.
template <class Options, class Text>
OptionField<Options> text_option(std::string name, Text Options::*member, std::string help,
                                 std::string allowed = "text") {
  auto field = detail::field(std::move(name), member, std::move(help), std::move(allowed),
                             [](const JsonView& v) { return v.text(); });
  field.get = [member](const Options& o) {
    return nlohmann::json(std::filesystem::path(o.*member).string());
  };
  return field;
}

namespace detail {
/// Each element of a list as `read` reads it; one value is a list of one.
template <class Value, class Read>
auto list_reader(Read read) {
  return [read](const JsonView& v) {
    std::vector<Value> list;
    ErrorList errors;
    for (const JsonView& one : v.elements()) errors.run([&] { list.push_back(read(one)); });
    errors.throw_any();
    return list;
  };
}
}  // namespace detail

/// A list of what `read` reads; `allowed` says in words what that is.
template <class Options, class Value, class Read>
OptionField<Options> list_option(std::string name, std::vector<Value> Options::*member,
                                 std::string help, const std::string& allowed, Read read) {
  return detail::field(std::move(name), member, std::move(help), "[" + allowed + ", ...]",
                       detail::list_reader<Value>(read));
}

/// A list of objects, each of which `table` reads; `read_short` reads one that is no object. What
/// an object leaves empty is not among the resolved ones.
template <class Options, class Members, class ReadShort>
OptionField<Options> list_option(std::string name, std::vector<Members> Options::*member,
                                 std::string help, const OptionTable<Members>& table,
                                 ReadShort read_short) {
  const auto read = [&table, read_short](const JsonView& v) {
    return v.value().is_object() ? table.fill(v) : read_short(v);
  };
  return {std::move(name),
          std::move(help),
          "[an object, ...]",
          [member, read](Options& o, const JsonView& v) {
            o.*member = detail::list_reader<Members>(read)(v);
          },
          [member, &table](const Options& o) {
            nlohmann::json list = nlohmann::json::array();
            for (const Members& one : o.*member)
              list.push_back(detail::without_empty(table.resolved(one)));
            return list;
          },
          /*is_file=*/false,
          table.info()};
}

}  // namespace rtfx
