// The fields of a record of the journal, as one table from which reading, writing, checking, the
// reference page and the JSON Schema follow.
//
//   struct Energy {
//     Number watts;
//     Optional<Nullable<Number>> seconds;
//     nlohmann::json other;
//     static const RecordTable<Energy>& table();
//   };
//   const RecordTable<Energy>& Energy::table() {
//     static const auto table = RecordTable<Energy>("energy", "...")
//         .add("watts", &Energy::watts, "W", "mean power")
//         .add("seconds", &Energy::seconds, "s", "time of these passes");
//     return table;
//   }
//
// The type of a member says whether the journal may leave it out (Optional) and whether it may be
// null (Nullable). Members that the table does not list are kept in `other`, so that a journal of
// another release is written as it was read.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rtfx {

// The error of a record that is not what its table says.

/// Throws UserError(where). `problem` and `remedy` name the field.
[[noreturn]] inline void refuse_record(const std::string& where, const std::string& problem,
                                       const std::string& remedy) {
  throw UserError(where, problem,
                  remedy + "; the journal was edited or damaged, or is of another release");
}

/// A member that a record may lack.
template <class T>
struct Optional : std::optional<T> {
  using std::optional<T>::optional;
};

/// A value that may be null in the journal.
template <class T>
using Nullable = std::optional<T>;

/// The value of a member that may be absent or null; null for both.
template <class T>
const T* known(const Optional<Nullable<T>>& member) {
  return member && *member ? &**member : nullptr;
}

/// A number that is written as it was read: 16 stays 16, and 16.0 stays 16.0.
class Number {
 public:
  Number() = default;
  Number(double value) : value_(value) {}
  template <std::integral Integer>
  Number(Integer value) : value_(static_cast<double>(value)), is_integer_(true), integer_(value) {}

  operator double() const { return value_; }
  nlohmann::json to_json() const {
    return is_integer_ ? nlohmann::json(integer_) : nlohmann::json(value_);
  }

 private:
  double value_ = 0;
  bool is_integer_ = false;
  int64_t integer_ = 0;
};

/// Kinds of JSON values, as a set.
enum JsonTypes : unsigned {
  kText = 1,
  kNumber = 2,
  kInteger = 4,
  kObject = 8,
  kList = 16,
  kFlag = 32,
  kNull = 64,
  kPositive = 128,
  kNotNegative = 256
};

/// "an object or null"
std::string names_of(unsigned types);

struct ObjectInfo;

/// A field of the journal's reference.
struct FieldInfo {
  std::string name = {};  // "*": every member of an object, or every element of a list
  unsigned types = 0;     // JsonTypes
  bool required = true;
  std::string unit = {}, help = {};
  const ObjectInfo* object = nullptr;    // the table of the object that it is, if it has one
  std::vector<FieldInfo> elements = {};  // of a list, or of an object with free names
  std::string group = {};                // the shared part of several tables that it belongs to
};

struct ObjectInfo {
  std::string name;   // "word errors"
  std::string about;  // a sentence for the reference page; may be empty
  std::vector<FieldInfo> fields;
};

/// Throws UserError(where) naming the first field of `object` that is missing or of another type.
void check_object(const nlohmann::json& object, const ObjectInfo& info, const std::string& where);

template <class Record>
class RecordTable;

/// How a type stands in JSON. `info()` gives the types and the elements of a field.
template <class T>
struct Codec {  // a struct with a table
  static FieldInfo info() { return {.name = "", .types = kObject, .object = &T::table().info()}; }
  static T read(const nlohmann::json& value) { return T::table().read(value); }
  static nlohmann::json write(const T& value) { return T::table().write(value); }
};

template <class T, unsigned kTypes>
struct PlainCodec {
  static FieldInfo info() { return {.name = "", .types = kTypes}; }
  static T read(const nlohmann::json& value) { return value.get<T>(); }
  static nlohmann::json write(const T& value) { return value; }
};

template <>
struct Codec<std::string> : PlainCodec<std::string, kText> {};
template <>
struct Codec<int64_t> : PlainCodec<int64_t, kInteger> {};
template <>
struct Codec<bool> : PlainCodec<bool, kFlag> {};

template <>
struct Codec<Number> {
  static FieldInfo info() { return {.name = "", .types = kNumber}; }
  static Number read(const nlohmann::json& value) {
    return value.is_number_integer() ? Number(value.get<int64_t>()) : Number(value.get<double>());
  }
  static nlohmann::json write(const Number& value) { return value.to_json(); }
};

/// A tree of options or of a configuration, which stays JSON.
struct OptionTree {
  nlohmann::json value = nlohmann::json::object();
};
template <>
struct Codec<OptionTree> {
  static FieldInfo info() { return {.name = "", .types = kObject}; }
  static OptionTree read(const nlohmann::json& value) { return {value}; }
  static nlohmann::json write(const OptionTree& tree) { return tree.value; }
};

template <class T>
struct Codec<Nullable<T>> {
  static FieldInfo info() {
    FieldInfo info = Codec<T>::info();
    info.types |= kNull;
    return info;
  }
  static Nullable<T> read(const nlohmann::json& value) {
    return value.is_null() ? std::nullopt : Nullable<T>(Codec<T>::read(value));
  }
  static nlohmann::json write(const Nullable<T>& value) {
    return value ? Codec<T>::write(*value) : nlohmann::json();
  }
};

namespace detail {
template <class T>
std::vector<FieldInfo> every() {
  FieldInfo element = Codec<T>::info();
  element.name = "*";
  return {std::move(element)};
}
}  // namespace detail

template <class T>
struct Codec<std::vector<T>> {
  static FieldInfo info() { return {.name = "", .types = kList, .elements = detail::every<T>()}; }
  static std::vector<T> read(const nlohmann::json& value) {
    std::vector<T> list;
    for (const nlohmann::json& element : value) list.push_back(Codec<T>::read(element));
    return list;
  }
  static nlohmann::json write(const std::vector<T>& list) {
    nlohmann::json value = nlohmann::json::array();
    for (const T& element : list) value.push_back(Codec<T>::write(element));
    return value;
  }
};

template <class T>
struct Codec<std::map<std::string, T>> {
  static FieldInfo info() { return {.name = "", .types = kObject, .elements = detail::every<T>()}; }
  static std::map<std::string, T> read(const nlohmann::json& value) {
    std::map<std::string, T> members;
    for (const auto& [name, member] : value.items()) members.emplace(name, Codec<T>::read(member));
    return members;
  }
  static nlohmann::json write(const std::map<std::string, T>& members) {
    nlohmann::json value = nlohmann::json::object();
    for (const auto& [name, member] : members) value[name] = Codec<T>::write(member);
    return value;
  }
};

/// A member of an object with free names that has a rule of its own.
inline FieldInfo named(std::string name, unsigned types, bool required = false) {
  return {.name = std::move(name), .types = types, .required = required};
}

/// `Record` has a member `nlohmann::json other`.
template <class Record>
class RecordTable {
 public:
  RecordTable(std::string name, std::string about)
      : info_{.name = std::move(name), .about = std::move(about), .fields = {}} {}

  /// `types`: narrower ones than the member's type gives, such as kPositive; of a list, they are
  /// those of its elements. `members` are rules for some members of an object with free names.
  template <class T, class Owner>
  RecordTable add(const std::string& name, T Owner::*member, std::string unit, std::string help,
                  unsigned types = 0, std::vector<FieldInfo> members = {}) && {
    FieldInfo info = Codec<T>::info();
    fill(info, name, std::move(unit), std::move(help), types, std::move(members));
    rows_.push_back({[name, member](Record& record, const nlohmann::json& object) {
                       const auto found = object.find(name);
                       if (found != object.end()) record.*member = Codec<T>::read(*found);
                     },
                     [name, member](const Record& record, nlohmann::json& object) {
                       object[name] = Codec<T>::write(record.*member);
                     }});
    return std::move(*this);
  }

  template <class T, class Owner>
  RecordTable add(const std::string& name, Optional<T> Owner::*member, std::string unit,
                  std::string help, unsigned types = 0, std::vector<FieldInfo> members = {}) && {
    FieldInfo info = Codec<T>::info();
    info.required = false;
    fill(info, name, std::move(unit), std::move(help), types, std::move(members));
    rows_.push_back({[name, member](Record& record, const nlohmann::json& object) {
                       const auto found = object.find(name);
                       if (found != object.end()) record.*member = Codec<T>::read(*found);
                     },
                     [name, member](const Record& record, nlohmann::json& object) {
                       if (record.*member) object[name] = Codec<T>::write(*(record.*member));
                     }});
    return std::move(*this);
  }

  /// Adds the rows that `part` adds to any table; the reference lists them once, as `group`.
  template <class Part>
  RecordTable add_group(const std::string& group, Part part) && {
    const size_t begin = info_.fields.size();
    RecordTable whole = part(std::move(*this));
    for (size_t i = begin; i < whole.info_.fields.size(); ++i) {
      if (whole.info_.fields[i].group.empty()) whole.info_.fields[i].group = group;
    }
    return whole;
  }

  const ObjectInfo& info() const { return info_; }

  /// Reads an object that check_object() accepts.
  Record read(const nlohmann::json& object) const {
    Record record;
    for (const Row& row : rows_) row.read(record, object);
    for (const auto& [name, value] : object.items()) {
      const auto is_it = [&](const FieldInfo& field) { return field.name == name; };
      if (std::ranges::none_of(info_.fields, is_it)) record.other[name] = value;
    }
    return record;
  }

  nlohmann::json write(const Record& record) const {
    nlohmann::json object = record.other.is_null() ? nlohmann::json::object() : record.other;
    for (const Row& row : rows_) row.write(record, object);
    return object;
  }

 private:
  struct Row {
    std::function<void(Record&, const nlohmann::json&)> read;
    std::function<void(const Record&, nlohmann::json&)> write;
  };

  void fill(FieldInfo& info, const std::string& name, std::string unit, std::string help,
            unsigned types, std::vector<FieldInfo> members) {
    info.name = name;
    info.unit = std::move(unit);
    info.help = std::move(help);
    unsigned& narrowed = (info.types & kList) != 0 ? info.elements.front().types : info.types;
    if (types != 0) narrowed = types | (narrowed & kNull);
    info.elements.insert(info.elements.begin(), std::make_move_iterator(members.begin()),
                         std::make_move_iterator(members.end()));
    info_.fields.push_back(std::move(info));
  }

  ObjectInfo info_;
  std::vector<Row> rows_;
};

}  // namespace rtfx
