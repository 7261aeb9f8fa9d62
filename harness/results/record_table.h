// The table of a record's fields. Reading, writing, checking, the reference page and the JSON
// Schema all follow from it.
//
//   struct Energy {
//     Number watts;
//     Optional<Nullable<Number>> seconds;
//     Box<nlohmann::json> other;
//     static const RecordTable<Energy>& table();
//   };
//   const RecordTable<Energy>& Energy::table() {
//     static const auto table = RecordTable<Energy>("energy", "...")
//         .add("watts", &Energy::watts, "W", "mean power")
//         .add("seconds", &Energy::seconds, "s", "time of these passes");
//     return table;
//   }
//
// A table is built once. It stores the place of each member and the functions of the member's type.
// So the code that reads and writes does not know the record's type.
//
// The type of a member says whether the journal may leave it out (Optional), and whether it may be
// null (Nullable). Fields that the table does not list are kept in `other`, a JSON object. So a
// journal of another release is written as it was read.
#pragma once

#include <boost/container/flat_map.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rtfx {

// The error for a record that does not fit its table.

/// Throws UserError(where). `problem` and `remedy` name the field.
[[noreturn]] inline void refuse_record(const std::string& where, const std::string& problem,
                                       const std::string& remedy) {
  throw UserError(where, problem,
                  remedy + "; the journal was edited or damaged, or is of another release");
}

/// A value that may be missing. A missing value takes no memory. It is used like std::optional.
template <class T>
class Box {
 public:
  Box() = default;
  Box(std::nullopt_t) {}
  Box(const T& value) : value_(std::make_unique<T>(value)) {}
  Box(T&& value) : value_(std::make_unique<T>(std::move(value))) {}
  Box(const Box& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
  Box(Box&&) noexcept = default;
  Box& operator=(Box other) noexcept {
    value_.swap(other.value_);
    return *this;
  }
  ~Box() = default;

  explicit operator bool() const { return value_ != nullptr; }
  bool has_value() const { return value_ != nullptr; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }
  T value_or(T other) const { return value_ ? *value_ : std::move(other); }
  T& emplace() { return *(value_ = std::make_unique<T>()); }
  T& emplace(T value) { return *(value_ = std::make_unique<T>(std::move(value))); }
  void reset() { value_.reset(); }

 private:
  std::unique_ptr<T> value_;
};

class Number;
class OptionTree;

/// Text that occurs in many records, such as a name, a key or a hash. The program stores each text
/// once, until it ends.
class SharedText : public std::string_view {
 public:
  SharedText() = default;
  SharedText(std::string_view text) : std::string_view(shared(text)) {}
  SharedText(const std::string& text) : SharedText(std::string_view(text)) {}
  SharedText(const char* text) : SharedText(std::string_view(text)) {}
  operator std::string() const { return {data(), size()}; }
  friend std::string operator+(const SharedText& a, std::string_view b) {
    return std::string(a).append(b);
  }
  friend std::string operator+(std::string_view a, const SharedText& b) {
    return std::string(a).append(b);
  }

 private:
  static std::string_view shared(std::string_view text);
};

/// The members of an object with free names, sorted by name.
template <class T>
using Named = boost::container::flat_map<SharedText, T, std::less<>>;

/// Says of a type that it is a part of a record with a table, and that most records lack most of
/// its members.
template <class T>
inline constexpr bool kIsPart = std::is_class_v<T>;
template <>
inline constexpr bool kIsPart<std::string> = false;
template <>
inline constexpr bool kIsPart<SharedText> = false;
template <>
inline constexpr bool kIsPart<Number> = false;
template <>
inline constexpr bool kIsPart<OptionTree> = false;
template <class T>
inline constexpr bool kIsPart<std::vector<T>> = false;
template <class T>
inline constexpr bool kIsPart<Named<T>> = false;
template <class T>
inline constexpr bool kIsPart<std::optional<T>> = false;
template <class T>
inline constexpr bool kIsPart<Box<T>> = false;

/// A number that may be null, as small as a number. It is used like std::optional.
class NullableNumber;
template <>
inline constexpr bool kIsPart<NullableNumber> = false;

/// A value that may be null in the journal.
template <class T>
using Nullable = std::conditional_t<
    kIsPart<T>, Box<T>,
    std::conditional_t<std::is_same_v<T, Number>, NullableNumber, std::optional<T>>>;

/// A member that a record may lack.
template <class T>
struct Optional : Nullable<T> {
  using Base = Nullable<T>;
  using Base::Base;

  friend bool operator==(const Optional& a, const Optional& b) requires(!kIsPart<T>) {
    return static_cast<const Base&>(a) == static_cast<const Base&>(b);
  }
  template <class U>
  friend bool operator==(const Optional& a, const U& b) requires(!std::is_base_of_v<Base, U>) {
    return a.has_value() && *a == b;
  }
};

/// Returns the value of a member that may be absent or null, as a pointer that is null for both.
template <class T>
const T* known(const Optional<std::optional<T>>& member) {
  return member && *member ? &**member : nullptr;
}
template <class T>
const T* known(const Optional<Box<T>>& member) {
  return member && *member ? &**member : nullptr;
}
const Number* known(const Optional<NullableNumber>& member);

/// A number that is written as it was read: 16 stays 16, and 16.0 stays 16.0.
class Number {
 public:
  Number() : real_(0) {}
  Number(double value) : real_(value) {}
  template <std::integral Integer>
  Number(Integer value) : is_integer_(true), integer_(static_cast<int64_t>(value)) {}

  operator double() const { return is_integer_ ? static_cast<double>(integer_) : real_; }
  bool is_integer() const { return is_integer_; }
  int64_t integer() const { return integer_; }
  nlohmann::json to_json() const {
    return is_integer_ ? nlohmann::json(integer_) : nlohmann::json(real_);
  }

 private:
  friend class NullableNumber;

  bool is_integer_ = false, is_null_ = false;
  union {
    double real_;
    int64_t integer_;
  };
};

class NullableNumber {
 public:
  NullableNumber() { number_.is_null_ = true; }
  NullableNumber(std::nullopt_t) : NullableNumber() {}
  template <std::convertible_to<Number> T>
  NullableNumber(T value) : number_(value) {}

  explicit operator bool() const { return has_value(); }
  bool has_value() const { return !number_.is_null_; }
  Number& operator*() { return number_; }
  const Number& operator*() const { return number_; }
  Number* operator->() { return &number_; }
  const Number* operator->() const { return &number_; }
  Number value_or(Number other) const { return has_value() ? number_ : other; }
  Number& emplace(Number value = {}) { return number_ = value; }
  void reset() { *this = {}; }

  friend bool operator==(const NullableNumber& a, const NullableNumber& b) {
    return a.has_value() == b.has_value() && (!a || *a == *b);
  }

 private:
  Number number_;
};

inline const Number* known(const Optional<NullableNumber>& member) {
  return member && *member ? &**member : nullptr;
}

/// A tree of options or of a configuration, kept as JSON. Copies share it.
class OptionTree {
 public:
  OptionTree() : OptionTree(nlohmann::json::object()) {}
  explicit OptionTree(nlohmann::json value)
      : value_(std::make_shared<const nlohmann::json>(std::move(value))) {}
  explicit OptionTree(std::shared_ptr<const nlohmann::json> value) : value_(std::move(value)) {}

  const nlohmann::json& value() const { return *value_; }

 private:
  std::shared_ptr<const nlohmann::json> value_;
};

/// A set of kinds of JSON values.
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

/// Returns, for example, "an object or null".
std::string names_of(unsigned types);

struct ObjectInfo;

/// One field on the journal's reference page.
struct FieldInfo {
  std::string name = {};  // "*": every member of an object, or every element of a list
  unsigned types = 0;     // JsonTypes
  bool required = true;
  std::string unit = {}, help = {};
  const ObjectInfo* object = nullptr;  // table of the object that the field is, or null
  /// Fields of the elements, for a list or an object with free names.
  std::vector<FieldInfo> elements = {};
  std::string group = {};  // name of the group of fields that several tables share; empty: none
};

struct ObjectInfo {
  std::string name;   // "word errors"
  std::string about;  // a sentence for the reference page; may be empty
  std::vector<FieldInfo> fields;
};

/// Throws UserError(where) naming the first field of `object` that is missing or of another type.
void check_object(const nlohmann::json& object, const ObjectInfo& info, const std::string& where);

/// The functions that make and read values of one C++ type through untyped pointers. A slot is a
/// member of a struct or an element of a list. It holds a value, null (Nullable) or nothing
/// (Optional).
struct SlotType {
  enum class Shape { text, shared_text, integer, number, flag, tree, object, list, members };
  enum class State { absent, null, there };

  Shape shape;
  bool optional, nullable;
  void* (*make)(void* slot);      // makes a value in the slot, and returns it
  void (*make_null)(void* slot);  // only for nullable types
  State (*look)(const void* slot, const void*& value);
  const class TableCore& (*table)() = nullptr;  // only for objects
  /// The rest is for lists and for objects with free names.
  const SlotType* element = nullptr;
  /// Adds a slot with this name, which lists ignore. Returns the slot, or null if the name is
  /// taken.
  void* (*add)(void* value, std::string_view name) = nullptr;
  size_t (*size)(const void* value) = nullptr;
  const void* (*at)(const void* value, size_t index, const SharedText*& name) = nullptr;
  void (*finish)(void* value) = nullptr;  // frees memory that growing has left over
};

/// The rows of a table, independent of the type of its records.
class TableCore {
 public:
  TableCore(const char* name, const char* about, size_t other)
      : info_{.name = name, .about = about, .fields = {}}, other_(other) {}

  struct Row {
    size_t offset;  // offset of the member in the record, in bytes
    const SlotType* type;
  };

  void add(const char* name, size_t offset, const SlotType& type, const char* unit,
           const char* help, unsigned types, std::vector<FieldInfo> members);
  /// Fields that are added after this call belong to this group, which several tables share.
  void begin_group(const char* group) { group_ = group; }

  const ObjectInfo& info() const { return info_; }
  const Row& row(size_t index) const { return rows_[index]; }
  /// Returns the row of a field, or none() if no row has the name. `hint` is the expected position
  /// in the order of names, and is advanced. Objects store their members in that order, so the hint
  /// is mostly right.
  size_t find(std::string_view name, size_t& hint) const;
  static constexpr size_t none() { return ~size_t{0}; }
  /// Row numbers in the order of the rows' names.
  const std::vector<size_t>& sorted() const { return sorted_; }
  /// The rows that a record must have, as a set of bits.
  uint64_t required() const { return required_; }
  Box<nlohmann::json>& other(void* record) const;
  const Box<nlohmann::json>& other(const void* record) const;

 private:
  ObjectInfo info_;
  std::vector<Row> rows_;
  std::vector<size_t> sorted_;
  uint64_t required_ = 0;
  size_t other_;
  std::string group_;
};

/// Stores option trees that several records have only once.
class SharedTrees {
 public:
  std::shared_ptr<const nlohmann::json> share(nlohmann::json&& tree);

 private:
  std::unordered_multimap<size_t, std::shared_ptr<const nlohmann::json>> trees_;
};

/// Reads an object, or a part of one, that check_object() accepts.
void read_object(const nlohmann::json& object, const TableCore& table, void* record);

/// Reads an object from its text. Returns false if check_object() or parse_json() might refuse it.
/// The record is then unusable.
bool read_object(std::string_view text, const TableCore& table, void* record, SharedTrees& trees);

nlohmann::json write_object(const void* record, const TableCore& table);

/// Appends the text that write_object() writes as a line, without the end of the line.
void write_object(const void* record, const TableCore& table, std::string& text);

namespace detail {

template <class T>
struct Slot {  // a value
  using Value = T;
  static constexpr bool kOptional = false, kNullable = false;
  static void* make(void* slot) { return slot; }
  static void make_null(void*) {}
  static SlotType::State look(const void* slot, const void*& value) {
    value = slot;
    return SlotType::State::there;
  }
};

/// `Null`: std::optional or Box.
template <class T, class Null>
struct NullableSlot {
  using Value = T;
  static constexpr bool kOptional = false, kNullable = true;
  static void* make(void* slot) { return &static_cast<Null*>(slot)->emplace(); }
  static void make_null(void* slot) { static_cast<Null*>(slot)->reset(); }
  static SlotType::State look(const void* slot, const void*& value) {
    const auto& nullable = *static_cast<const Null*>(slot);
    if (!nullable) return SlotType::State::null;
    value = &*nullable;
    return SlotType::State::there;
  }
};

template <class T>
struct Slot<std::optional<T>> : NullableSlot<T, std::optional<T>> {};
template <class T>
struct Slot<Box<T>> : NullableSlot<T, Box<T>> {};
template <>
struct Slot<NullableNumber> : NullableSlot<Number, NullableNumber> {};

template <class T>
struct Slot<Optional<T>> {
  using Inner = Slot<T>;
  using Value = typename Inner::Value;
  static constexpr bool kOptional = true, kNullable = Inner::kNullable;
  static void* make(void* slot) { return Inner::make(&static_cast<Optional<T>*>(slot)->emplace()); }
  static void make_null(void* slot) {
    Inner::make_null(&static_cast<Optional<T>*>(slot)->emplace());
  }
  static SlotType::State look(const void* slot, const void*& value) {
    const auto& optional = *static_cast<const Optional<T>*>(slot);
    return optional ? Inner::look(&*optional, value) : SlotType::State::absent;
  }
};

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T>
struct IsNamed : std::false_type {};
template <class T>
struct IsNamed<Named<T>> : std::true_type {};

template <class List>
struct ListSlot {
  static void* add(void* value, std::string_view) {
    return &static_cast<List*>(value)->emplace_back();
  }
  static size_t size(const void* value) { return static_cast<const List*>(value)->size(); }
  static const void* at(const void* value, size_t index, const SharedText*&) {
    return &(*static_cast<const List*>(value))[index];
  }
  static void finish(void* value) { static_cast<List*>(value)->shrink_to_fit(); }
};

template <class Map>
struct NamedSlot {
  static void* add(void* value, std::string_view name) {
    auto& map = *static_cast<Map*>(value);
    const auto place =
        map.empty() || (map.end() - 1)->first < name ? map.end() : map.lower_bound(name);
    if (place != map.end() && place->first == name) return nullptr;
    return &map.try_emplace(place, SharedText(name))->second;
  }
  static size_t size(const void* value) { return static_cast<const Map*>(value)->size(); }
  static const void* at(const void* value, size_t index, const SharedText*& name) {
    const auto place = static_cast<const Map*>(value)->nth(index);
    name = &place->first;
    return &place->second;
  }
  static void finish(void* value) { static_cast<Map*>(value)->shrink_to_fit(); }
};

template <class T>
constexpr SlotType::Shape shape_of() {
  using Shape = SlotType::Shape;
  if constexpr (std::is_same_v<T, std::string>) return Shape::text;
  if constexpr (std::is_same_v<T, SharedText>) return Shape::shared_text;
  if constexpr (std::is_same_v<T, int64_t>) return Shape::integer;
  if constexpr (std::is_same_v<T, Number>) return Shape::number;
  if constexpr (std::is_same_v<T, bool>) return Shape::flag;
  if constexpr (std::is_same_v<T, OptionTree>) return Shape::tree;
  if constexpr (IsList<T>::value) return Shape::list;
  if constexpr (IsNamed<T>::value) return Shape::members;
  return Shape::object;
}

template <class Value>
const TableCore& table_of() {
  return Value::table().core();
}

template <class T>
constexpr SlotType make_slot_type();

template <class T>
inline constexpr SlotType kSlotType = make_slot_type<T>();

template <class T>
constexpr SlotType make_slot_type() {
  using S = Slot<T>;
  using Value = typename S::Value;
  SlotType type{.shape = shape_of<Value>(),
                .optional = S::kOptional,
                .nullable = S::kNullable,
                .make = S::make,
                .make_null = S::make_null,
                .look = S::look};
  if constexpr (shape_of<Value>() == SlotType::Shape::object) type.table = table_of<Value>;
  if constexpr (IsList<Value>::value) {
    type.element = &kSlotType<typename Value::value_type>;
    type.add = ListSlot<Value>::add;
    type.size = ListSlot<Value>::size;
    type.at = ListSlot<Value>::at;
    type.finish = ListSlot<Value>::finish;
  }
  if constexpr (IsNamed<Value>::value) {
    type.element = &kSlotType<typename Value::mapped_type>;
    type.add = NamedSlot<Value>::add;
    type.size = NamedSlot<Value>::size;
    type.at = NamedSlot<Value>::at;
    type.finish = NamedSlot<Value>::finish;
  }
  return type;
}

/// Returns the field for a slot of the type, without name and help.
FieldInfo field_of(const SlotType& type);
nlohmann::json write_slot(const void* slot, const SlotType& type);

}  // namespace detail

/// Returns the field for one member of an object with free names, if it has a rule of its own.
inline FieldInfo named(std::string name, unsigned types, bool required = false) {
  return {.name = std::move(name), .types = types, .required = required};
}

/// Returns the value of a member as JSON, for messages; null if it is absent.
template <class T>
nlohmann::json to_json(const Optional<T>& member) {
  return member ? detail::write_slot(&member, detail::kSlotType<Optional<T>>) : nlohmann::json();
}

/// The table of the records of a type. `Record` must have a member `Box<nlohmann::json> other`,
/// which keeps the fields that no row lists.
template <class Record>
class RecordTable {
 public:
  RecordTable(const char* name, const char* about) : core_(name, about, offset(&Record::other)) {}

  /// Adds a field. `types` may be narrower than those of the member's type, such as kPositive; for
  /// a list, they are the types of its elements. `members` are rules for some members of an object
  /// with free names.
  template <class T, class Owner>
  RecordTable&& add(const char* name, T Owner::*member, const char* unit, const char* help,
                    unsigned types = 0, std::vector<FieldInfo> members = {}) && {
    core_.add(name, offset(member), detail::kSlotType<T>, unit, help, types, std::move(members));
    return std::move(*this);
  }

  /// Begins a group of fields, which the reference page lists once. An empty name ends the group.
  RecordTable&& group(const char* group) && {
    core_.begin_group(group);
    return std::move(*this);
  }

  const TableCore& core() const { return core_; }
  const ObjectInfo& info() const { return core_.info(); }

  /// Reads an object, or a part of one, that check_object() accepts.
  Record read(const nlohmann::json& object) const {
    Record record;
    read_object(object, core_, &record);
    return record;
  }
  nlohmann::json write(const Record& record) const { return write_object(&record, core_); }

 private:
  static const Record& probe() {
    static const Record record{};
    return record;
  }

  /// Returns the offset of a member in a record, from an existing record.
  template <class T, class Owner>
  static size_t offset(T Owner::*member) {
    return static_cast<size_t>(reinterpret_cast<const char*>(&(probe().*member)) -
                               reinterpret_cast<const char*>(&probe()));
  }

  TableCore core_;
};

}  // namespace rtfx
