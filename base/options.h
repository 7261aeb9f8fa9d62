// Options: a flat struct, filled from JSON by name through one table of fields. Reading, checking,
// listing and documentation all use this table. Decoders and configurations have such tables.
//
//   struct Options { int64_t max_symbols = 10; std::string score_kind = "logit"; };
//   const OptionTable<Options> kOptions{{
//       option("max_symbols", &Options::max_symbols, "Tokens per frame.", 1, 1000),
//       option("score_kind", &Options::score_kind, "Kind of score.", {"logit", "logprob"})}};
//
// Options that several decoders share can be a struct with a table of its own. This struct can be
// an optional member, which is given as an object ({"lm": {"path": ...}}) and listed with a dot
// ("lm.path"). Or the decoders' structs derive from it, and fields_with() puts its fields before
// theirs.
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
  std::string default_text;  // the default in words, where no value can express it
  bool is_file = false;      // relative to the configuration that it stands in
};

/// Returns the default as it is printed, for example "10", "the period" or "required".
std::string default_of(const OptionInfo& option);

template <class Options>
struct OptionField {
  std::string name, help, allowed;
  std::function<void(Options&, const JsonView&)> set;
  std::function<nlohmann::json(const Options&)> get;  // returns null where nothing is set
  bool is_file = false;
  std::vector<OptionInfo> members = {};  // options of an object, or of each object in a list
  bool is_required = false;
  std::string default_text = {};

  OptionField required() const {
    OptionField field = *this;
    field.is_required = true;
    field.default_text = "required";
    return field;
  }

  /// Returns the field with a text that describes its default.
  OptionField by_default(std::string text) const {
    OptionField field = *this;
    field.default_text = std::move(text);
    return field;
  }
};

namespace detail {
std::string choice_text(const std::vector<std::string>& allowed);
/// Returns the object without members that are null, "" or [].
nlohmann::json without_empty(nlohmann::json object);

/// Returns a field whose value `read` makes from the JSON.
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

/// Makes a field for an integer in [low, high]. A value of the struct below `low` means that none
/// is set.
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

/// Makes a field for a file, which must be given and exist.
template <class Options>
OptionField<Options> option(std::string name, std::filesystem::path Options::*member,
                            std::string help) {
  auto field = detail::field(std::move(name), member, std::move(help), "a file",
                             [](const JsonView& v) { return v.file(); });
  field.get = [member](const Options& o) { return nlohmann::json((o.*member).string()); };
  field.is_file = true;
  return field.required();
}

/// Makes a field for a file that may be left out. An empty path in the struct means that none is
/// given.
template <class Options>
OptionField<Options> optional_file(std::string name, std::filesystem::path Options::*member,
                                   std::string help) {
  auto field = option(std::move(name), member, std::move(help));
  field.is_required = false;
  field.default_text = "none";
  field.get = [member](const Options& o) {
    return (o.*member).empty() ? nlohmann::json() : nlohmann::json((o.*member).string());
  };
  return field;
}

template <class Options>
struct OptionTable {
  std::vector<OptionField<Options>> fields;
  const char* kind = "option";  // the word for a field in messages

  /// Returns the options that `given` holds. A null, also as the value of an option, counts as
  /// absent.
  Options fill(const JsonView& given) const {
    Options options;
    fill_into(options, given);
    return options;
  }

  /// Fills options from `object`. `where` names the object in messages (a JSON pointer such as
  /// "/decoders/0/options"). Null gives the defaults, even without the required options, which is
  /// enough for describe().
  Options fill(const nlohmann::json& object, std::string_view where) const {
    return object.is_null() ? Options() : fill(JsonView(object, std::string(where)));
  }

  /// Sets the given options and leaves the others as they are. Sets all correct fields first, and
  /// then throws the errors of the others together.
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

/// Returns the fields of `shared`, a struct from which `Options` derives, followed by the fields in
/// `own`.
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

/// Makes a field for an object of options. It is null by default, which means that there is none.
/// `table` must outlive the field.
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

/// Makes a field for an object of options that is always there, with its own defaults.
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

/// Makes a field for any text that is not empty. An empty text in the struct means that none is
/// set. `Text` is std::string or std::filesystem::path.
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
/// Returns a reader of lists. `read` reads each element, and a single value counts as a list of
/// one.
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

/// Makes a field for a list. `read` reads each element, and `allowed` describes an element in
/// words.
template <class Options, class Value, class Read>
OptionField<Options> list_option(std::string name, std::vector<Value> Options::*member,
                                 std::string help, const std::string& allowed, Read read) {
  return detail::field(std::move(name), member, std::move(help), "[" + allowed + ", ...]",
                       detail::list_reader<Value>(read));
}

/// Makes a field for a list of objects. `table` reads an object, and `read_short` an element that
/// is no object. The resolved options leave out empty members of the objects.
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
