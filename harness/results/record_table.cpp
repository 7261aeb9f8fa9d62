#include "harness/results/record_table.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <unordered_set>

#include "base/json.h"

namespace rtfx {

namespace {

using nlohmann::json;

/// Returns whether a number is an integer that int64_t can hold.
bool is_int64(const json& value) {
  return value.is_number_integer() &&
         (!value.is_number_unsigned() || std::in_range<int64_t>(value.get<uint64_t>()));
}

bool is_of(const json& value, unsigned types) {
  return ((types & kText) != 0 && value.is_string()) ||
         ((types & kNumber) != 0 && value.is_number()) ||
         ((types & kInteger) != 0 && is_int64(value)) ||
         ((types & kObject) != 0 && value.is_object()) ||
         ((types & kList) != 0 && value.is_array()) ||
         ((types & kFlag) != 0 && value.is_boolean()) ||
         ((types & kNull) != 0 && value.is_null()) ||
         ((types & kPositive) != 0 && value.is_number() && value.get<double>() > 0) ||
         ((types & kNotNegative) != 0 && value.is_number() && value.get<double>() >= 0);
}

void check_members(const json& value, const std::vector<FieldInfo>& fields, const std::string& path,
                   const std::string& where);

/// `path` is the field's place in its record, such as "regions/*/host_seconds".
void check_value(const json& value, const FieldInfo& field, const std::string& path,
                 const std::string& where) {
  if (!is_of(value, field.types)) {
    refuse_record(where, fmt::format("'{}' is {}", path, value.dump().substr(0, 40)),
                  "it must be " + names_of(field.types));
  }
  if (field.object != nullptr) check_members(value, field.object->fields, path + "/", where);
  check_members(value, field.elements, path + "/", where);
}

void check_members(const json& value, const std::vector<FieldInfo>& fields, const std::string& path,
                   const std::string& where) {
  if (!value.is_structured()) return;  // null in its place
  for (const FieldInfo& field : fields) {
    if (field.name == "*") {
      for (const auto& [name, element] : value.items())
        check_value(element, field, path + name, where);
      continue;
    }
    const std::string its_path = path + field.name;
    const auto found = value.find(field.name);
    if (found != value.end()) {
      check_value(*found, field, its_path, where);
    } else if (field.required) {
      refuse_record(where, fmt::format("'{}' is missing", its_path), "add it");
    }
  }
}

}  // namespace

std::string names_of(unsigned types) {
  const std::pair<unsigned, const char*> all[] = {{kText, "text"},
                                                  {kNumber, "a number"},
                                                  {kInteger, "an integer"},
                                                  {kObject, "an object"},
                                                  {kList, "a list"},
                                                  {kFlag, "true or false"},
                                                  {kNull, "null"},
                                                  {kPositive, "a number above 0"},
                                                  {kNotNegative, "a number from 0"}};
  std::string names;
  for (const auto& [type, name] : all) {
    if ((types & type) != 0) names += (names.empty() ? "" : " or ") + std::string(name);
  }
  return names;
}

void check_object(const json& object, const ObjectInfo& info, const std::string& where) {
  check_members(object, info.fields, "", where);
}

std::string_view SharedText::shared(std::string_view text) {
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view one) const { return std::hash<std::string_view>()(one); }
  };
  static std::mutex mutex;
  static std::unordered_set<std::string, Hash, std::equal_to<>> texts;
  const std::lock_guard lock(mutex);
  const auto found = texts.find(text);
  return found != texts.end() ? *found : *texts.emplace(text).first;
}

// Tables of fields.

void TableCore::add(const char* name, size_t offset, const SlotType& type, const char* unit,
                    const char* help, unsigned types, std::vector<FieldInfo> members) {
  FieldInfo info = detail::field_of(type);
  info.name = name;
  info.unit = unit;
  info.help = help;
  info.group = group_;
  unsigned& narrowed = (info.types & kList) != 0 ? info.elements.front().types : info.types;
  if (types != 0) narrowed = types | (narrowed & kNull);
  info.elements.insert(info.elements.begin(), std::make_move_iterator(members.begin()),
                       std::make_move_iterator(members.end()));
  const size_t index = rows_.size();
  RTFX_CHECK(index < 64, "required() has a bit for each row");
  if (info.required) required_ |= uint64_t{1} << index;
  info_.fields.push_back(std::move(info));
  rows_.push_back({offset, &type});
  const auto by_name = [&](size_t a, size_t b) {
    return info_.fields[a].name < info_.fields[b].name;
  };
  sorted_.insert(std::ranges::lower_bound(sorted_, index, by_name), index);
}

size_t TableCore::find(std::string_view name, size_t& hint) const {
  for (size_t place = hint; place < sorted_.size(); ++place) {
    const int order = std::string_view(info_.fields[sorted_[place]].name).compare(name);
    if (order > 0) break;
    if (order < 0) continue;
    hint = place + 1;
    return sorted_[place];
  }
  const auto of_row = [&](size_t row) -> std::string_view { return info_.fields[row].name; };
  const auto found = std::ranges::lower_bound(sorted_, name, {}, of_row);
  return found == sorted_.end() || of_row(*found) != name ? none() : *found;
}

Box<json>& TableCore::other(void* record) const {
  return *reinterpret_cast<Box<json>*>(static_cast<char*>(record) + other_);
}

const Box<json>& TableCore::other(const void* record) const {
  return *reinterpret_cast<const Box<json>*>(static_cast<const char*>(record) + other_);
}

FieldInfo detail::field_of(const SlotType& type) {
  using Shape = SlotType::Shape;
  FieldInfo info;
  info.required = !type.optional;
  switch (type.shape) {
    case Shape::text:
    case Shape::shared_text:
      info.types = kText;
      break;
    case Shape::integer:
      info.types = kInteger;
      break;
    case Shape::number:
      info.types = kNumber;
      break;
    case Shape::flag:
      info.types = kFlag;
      break;
    case Shape::tree:
      info.types = kObject;
      break;
    case Shape::object:
      info.types = kObject;
      info.object = &type.table().info();
      break;
    case Shape::list:
    case Shape::members:
      info.types = type.shape == Shape::list ? kList : kObject;
      info.elements.push_back(field_of(*type.element));
      info.elements.back().name = "*";
      break;
  }
  if (type.nullable) info.types |= kNull;
  return info;
}

std::shared_ptr<const json> SharedTrees::share(json&& tree) {
  const size_t hash = std::hash<json>()(tree);
  const auto [begin, end] = trees_.equal_range(hash);
  for (auto found = begin; found != end; ++found) {
    if (*found->second == tree) return found->second;
  }
  return trees_.emplace(hash, std::make_shared<const json>(std::move(tree)))->second;
}

namespace {

using Shape = SlotType::Shape;
constexpr size_t kMostLevels = 100;  // levels of nesting, as in parse_json()

bool satisfies(unsigned types, unsigned kind, double number) {
  return (types & kind) != 0 || ((types & kPositive) != 0 && number > 0) ||
         ((types & kNotNegative) != 0 && number >= 0);
}

/// Puts the events of a JSON parser into a record. An event returns false if the record does not
/// fit its table.
class RecordReader {
 public:
  /// With `strict`, missing required members are an error.
  RecordReader(const TableCore& table, void* record, SharedTrees* trees, bool strict)
      : table_(&table), record_(record), trees_(trees), strict_(strict) {
    frames_.reserve(8);
  }

  bool null() {
    const Target to = target();
    if (to.tree != nullptr) return *to.tree = nullptr, true;
    if (!to.is_allowed(kNull) || !to.type->nullable) return false;
    to.type->make_null(to.slot);
    return true;
  }
  bool boolean(bool value) {
    const Target to = target();
    if (to.tree != nullptr) return *to.tree = value, true;
    if (!to.is_allowed(kFlag) || to.type->shape != Shape::flag) return false;
    *static_cast<bool*>(to.type->make(to.slot)) = value;
    return true;
  }
  bool number_integer(int64_t value) {
    const Target to = target();
    if (to.tree != nullptr) return *to.tree = value, true;
    return put_integer(to, value);
  }
  bool number_unsigned(uint64_t value) {
    const Target to = target();
    if (to.tree != nullptr) return *to.tree = value, true;
    if (!std::in_range<int64_t>(value)) return put_number(to, static_cast<double>(value));
    return put_integer(to, static_cast<int64_t>(value));
  }
  bool number_float(double value) {
    const Target to = target();
    if (to.tree != nullptr) return *to.tree = value, true;
    return put_number(to, value);
  }
  bool string(std::string_view value) {
    const Target to = target();
    if (to.tree != nullptr) return *to.tree = std::string(value), true;
    if (!to.is_allowed(kText)) return false;
    if (to.type->shape == Shape::text) {
      *static_cast<std::string*>(to.type->make(to.slot)) = value;
    } else if (to.type->shape == Shape::shared_text) {
      *static_cast<SharedText*>(to.type->make(to.slot)) = SharedText(value);
    } else {
      return false;
    }
    return true;
  }

  bool start_object() {
    if (frames_.size() > kMostLevels) return false;
    if (frames_.empty()) {
      frames_.push_back({.table = table_, .value = record_});
      return true;
    }
    const Target to = target();
    if (to.tree != nullptr) {
      *to.tree = json::object();
      frames_.push_back({.tree = to.tree});
      return true;
    }
    if (!to.is_allowed(kObject)) return false;
    void* value = to.type->make(to.slot);
    switch (to.type->shape) {
      case Shape::object:
        frames_.push_back({.table = &to.type->table(), .value = value});
        return true;
      case Shape::members:
        frames_.push_back({.type = to.type, .value = value, .field = to.field});
        return true;
      case Shape::tree:
        tree_ = json::object();
        frames_.push_back({.value = value, .field = to.field, .tree = &tree_});
        return true;
      default:
        return false;
    }
  }

  bool key(std::string_view name) {
    Frame& frame = frames_.back();
    if (frame.tree != nullptr) return add_to(*frame.tree, name);
    if (frame.table == nullptr) {
      void* slot = frame.type->add(frame.value, name);
      if (slot == nullptr) return false;
      const FieldInfo *every = nullptr, *its = nullptr;
      for (const FieldInfo& element : frame.field->elements) {
        if (element.name == "*") every = &element;
        if (element.name == name) its = &element;
      }
      frame.next = {.type = frame.type->element, .slot = slot, .field = every, .also = its};
      return true;
    }
    const size_t index = frame.table->find(name, frame.hint);
    if (index == TableCore::none()) {
      Box<json>& other = frame.table->other(frame.value);
      return add_to(other ? *other : other.emplace(json::object()), name);
    }
    const uint64_t bit = uint64_t{1} << index;
    if ((frame.seen & bit) != 0) return false;
    frame.seen |= bit;
    const TableCore::Row& row = frame.table->row(index);
    frame.next = {.type = row.type,
                  .slot = static_cast<char*>(frame.value) + row.offset,
                  .field = &frame.table->info().fields[index]};
    return true;
  }

  bool end_object() {
    const Frame frame = frames_.back();
    frames_.pop_back();
    if (frame.table != nullptr) return !strict_ || (frame.table->required() & ~frame.seen) == 0;
    if (frame.tree == nullptr) {
      frame.type->finish(frame.value);
      return !strict_ || has_required(frame);
    }
    if (frame.value == nullptr) return true;
    auto& tree = *static_cast<OptionTree*>(frame.value);
    if (strict_ && !frame.field->elements.empty()) {
      try {
        check_members(tree_, frame.field->elements, "", "");
      } catch (const UserError&) {
        return false;
      }
    }
    tree = trees_ == nullptr ? OptionTree(std::move(tree_))
                             : OptionTree(trees_->share(std::move(tree_)));
    return true;
  }

  bool start_array() {
    if (frames_.empty() || frames_.size() > kMostLevels) return false;
    const Target to = target();
    if (to.tree != nullptr) {
      *to.tree = json::array();
      frames_.push_back({.tree = to.tree});
      return true;
    }
    if (!to.is_allowed(kList) || to.type->shape != Shape::list) return false;
    frames_.push_back({.type = to.type,
                       .value = to.type->make(to.slot),
                       .field = &to.field->elements.front(),
                       .is_list = true});
    return true;
  }
  bool end_array() {
    const Frame frame = frames_.back();
    frames_.pop_back();
    if (frame.tree == nullptr) frame.type->finish(frame.value);
    return true;
  }

 private:
  /// The place of the next value.
  struct Target {
    const SlotType* type = nullptr;
    void* slot = nullptr;
    const FieldInfo *field = nullptr, *also = nullptr;  // rules of the value
    json* tree = nullptr;  // place in an opaque tree, instead of the others

    bool is_allowed(unsigned kind, double number = 0) const {
      return field != nullptr && satisfies(field->types, kind, number) &&
             (also == nullptr || satisfies(also->types, kind, number));
    }
  };
  /// An object or a list that has been opened.
  struct Frame {
    const TableCore* table = nullptr;  // for an object with a table
    const SlotType* type = nullptr;    // for a list, or an object with free names
    void* value = nullptr;
    const FieldInfo* field = nullptr;  // rules of the members or elements
    json* tree = nullptr;              // for an opaque tree
    bool is_list = false;
    uint64_t seen = 0;  // bits of the rows that were read
    size_t hint = 0;
    Target next = {};
  };

  static bool put_number(const Target& to, double value) {
    if (!to.is_allowed(kNumber, value) || to.type->shape != Shape::number) return false;
    *static_cast<Number*>(to.type->make(to.slot)) = Number(value);
    return true;
  }
  static bool put_integer(const Target& to, int64_t value) {
    if (!to.is_allowed(kInteger | kNumber, static_cast<double>(value))) return false;
    if (to.type->shape == Shape::integer) {
      *static_cast<int64_t*>(to.type->make(to.slot)) = value;
    } else if (to.type->shape == Shape::number) {
      *static_cast<Number*>(to.type->make(to.slot)) = Number(value);
    } else {
      return false;
    }
    return true;
  }

  Target target() {
    if (frames_.empty()) return {};  // the line is no object
    Frame& frame = frames_.back();
    if (frame.is_list)
      return {.type = frame.type->element,
              .slot = frame.type->add(frame.value, {}),
              .field = frame.field};
    if (frame.tree != nullptr && frame.tree->is_array()) {
      frame.tree->push_back(nullptr);
      return {.tree = &frame.tree->back()};
    }
    return frame.next;
  }

  bool add_to(json& object, std::string_view name) {
    const auto [place, fresh] = object.emplace(std::string(name), nullptr);
    frames_.back().next = {.tree = &*place};
    return fresh;
  }

  static bool has_required(const Frame& frame) {
    for (const FieldInfo& field : frame.field->elements) {
      if (field.name == "*" || !field.required) continue;
      bool found = false;
      for (size_t i = 0; i < frame.type->size(frame.value) && !found; ++i) {
        const SharedText* name = nullptr;
        frame.type->at(frame.value, i, name);
        found = *name == field.name;
      }
      if (!found) return false;
    }
    return true;
  }

  const TableCore* table_;
  void* record_;
  SharedTrees* trees_;
  bool strict_;
  std::vector<Frame> frames_;
  json tree_;
};

/// Passes a value to a reader as a parser would.
bool tell(const json& value, RecordReader& reader) {
  switch (value.type()) {
    case json::value_t::object:
      if (!reader.start_object()) return false;
      for (const auto& [key, member] : value.items()) {
        if (!reader.key(key) || !tell(member, reader)) return false;
      }
      return reader.end_object();
    case json::value_t::array:
      if (!reader.start_array()) return false;
      for (const json& element : value) {
        if (!tell(element, reader)) return false;
      }
      return reader.end_array();
    case json::value_t::string:
      return reader.string(value.get_ref<const std::string&>());
    case json::value_t::boolean:
      return reader.boolean(value.get<bool>());
    case json::value_t::number_integer:
      return reader.number_integer(value.get<int64_t>());
    case json::value_t::number_unsigned:
      return reader.number_unsigned(value.get<uint64_t>());
    case json::value_t::number_float:
      return reader.number_float(value.get<double>());
    default:
      return reader.null();
  }
}

bool tell(simdjson::dom::element value, RecordReader& reader) {
  using Type = simdjson::dom::element_type;
  switch (value.type()) {
    case Type::OBJECT: {
      if (!reader.start_object()) return false;
      const simdjson::dom::object object = value.get_object();
      for (const simdjson::dom::key_value_pair& member : object) {
        if (!reader.key(member.key) || !tell(member.value, reader)) return false;
      }
      return reader.end_object();
    }
    case Type::ARRAY: {
      if (!reader.start_array()) return false;
      const simdjson::dom::array list = value.get_array();
      for (const simdjson::dom::element element : list) {
        if (!tell(element, reader)) return false;
      }
      return reader.end_array();
    }
    case Type::STRING:
      return reader.string(static_cast<std::string_view>(value.get_string()));
    case Type::BOOL:
      return reader.boolean(static_cast<bool>(value.get_bool()));
    case Type::INT64: {
      const int64_t integer = value.get_int64();
      return integer < 0 ? reader.number_integer(integer)
                         : reader.number_unsigned(static_cast<uint64_t>(integer));
    }
    case Type::UINT64:
      return reader.number_unsigned(static_cast<uint64_t>(value.get_uint64()));
    case Type::DOUBLE:
      return reader.number_float(static_cast<double>(value.get_double()));
    default:
      return reader.null();
  }
}

}  // namespace

void read_object(const json& object, const TableCore& table, void* record) {
  RecordReader reader(table, record, nullptr, /*strict=*/false);
  RTFX_CHECK(tell(object, reader), "check_object() refuses this record");
}

bool read_object(std::string_view text, const TableCore& table, void* record, SharedTrees& trees) {
  static thread_local simdjson::dom::parser parser;
  simdjson::dom::element value;
  if (parser.parse(text.data(), text.size()).get(value) != simdjson::SUCCESS) return false;
  RecordReader reader(table, record, &trees, /*strict=*/true);
  return tell(value, reader);
}

// Writing records.

namespace {

const json& tree_of(const void* value) { return static_cast<const OptionTree*>(value)->value(); }

/// Writes text in quotes. The JSON library writes text that is not plain ASCII.
void write_text(std::string_view value, std::string& text) {
  const auto is_plain = [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(value, is_plain)) {
    text += '"';
    text += value;
    text += '"';
  } else {
    text += to_text(json(value));
  }
}

void write_tree(const json& tree, std::string& text) { text += to_text(tree); }

void write_value(const void* value, const SlotType& type, std::string& text) {
  switch (type.shape) {
    case Shape::text:
      return write_text(*static_cast<const std::string*>(value), text);
    case Shape::shared_text:
      return write_text(*static_cast<const SharedText*>(value), text);
    case Shape::integer:
      return static_cast<void>(
          fmt::format_to(std::back_inserter(text), "{}", *static_cast<const int64_t*>(value)));
    case Shape::flag:
      text += *static_cast<const bool*>(value) ? "true" : "false";
      return;
    case Shape::number: {
      const auto& number = *static_cast<const Number*>(value);
      if (number.is_integer()) {
        fmt::format_to(std::back_inserter(text), "{}", number.integer());
      } else {
        text += json(static_cast<double>(number)).dump();
      }
      return;
    }
    case Shape::tree:
      return write_tree(tree_of(value), text);
    case Shape::object:
      return write_object(value, type.table(), text);
    case Shape::list:
    case Shape::members:
      break;
  }
  const bool is_list = type.shape == Shape::list;
  text += is_list ? '[' : '{';
  for (size_t i = 0; i < type.size(value); ++i) {
    const SharedText* name = nullptr;
    const void* its = nullptr;
    const void* slot = type.at(value, i, name);
    if (i > 0) text += ',';
    if (!is_list) {
      write_text(*name, text);
      text += ':';
    }
    if (type.element->look(slot, its) == SlotType::State::there) {
      write_value(its, *type.element, text);
    } else {
      text += "null";
    }
  }
  text += is_list ? ']' : '}';
}

json value_json(const void* value, const SlotType& type) {
  switch (type.shape) {
    case Shape::text:
      return *static_cast<const std::string*>(value);
    case Shape::shared_text:
      return static_cast<std::string>(*static_cast<const SharedText*>(value));
    case Shape::integer:
      return *static_cast<const int64_t*>(value);
    case Shape::flag:
      return *static_cast<const bool*>(value);
    case Shape::number:
      return static_cast<const Number*>(value)->to_json();
    case Shape::tree:
      return tree_of(value);
    case Shape::object:
      return write_object(value, type.table());
    case Shape::list:
    case Shape::members:
      break;
  }
  json whole = type.shape == Shape::list ? json::array() : json::object();
  for (size_t i = 0; i < type.size(value); ++i) {
    const SharedText* name = nullptr;
    json element = detail::write_slot(type.at(value, i, name), *type.element);
    if (name == nullptr) {
      whole.push_back(std::move(element));
    } else {
      whole[*name] = std::move(element);
    }
  }
  return whole;
}

const void* slot_of(const void* record, const TableCore::Row& row) {
  return static_cast<const char*>(record) + row.offset;
}

}  // namespace

json detail::write_slot(const void* slot, const SlotType& type) {
  const void* value = nullptr;
  return type.look(slot, value) == SlotType::State::there ? value_json(value, type) : json();
}

json write_object(const void* record, const TableCore& table) {
  const Box<json>& other = table.other(record);
  json object = other ? *other : json::object();
  for (size_t i = 0; i < table.info().fields.size(); ++i) {
    const TableCore::Row& row = table.row(i);
    const void* value = nullptr;
    if (row.type->look(slot_of(record, row), value) != SlotType::State::absent)
      object[table.info().fields[i].name] = detail::write_slot(slot_of(record, row), *row.type);
  }
  return object;
}

void write_object(const void* record, const TableCore& table, std::string& text) {
  static const json kNone = json::object();
  const Box<json>& its = table.other(record);
  const json& other = its ? *its : kNone;
  auto unlisted = other.begin();
  const auto last = other.end();
  char separator = '{';
  const auto name = [&](const std::string& text_of_name) {
    text += separator;
    separator = ',';
    write_text(text_of_name, text);
    text += ':';
  };
  for (const size_t i : table.sorted()) {
    const TableCore::Row& row = table.row(i);
    const std::string& field = table.info().fields[i].name;
    const void* value = nullptr;
    const SlotType::State state = row.type->look(slot_of(record, row), value);
    if (state == SlotType::State::absent) continue;
    for (; unlisted != last && unlisted.key() < field; ++unlisted) {
      name(unlisted.key());
      write_tree(*unlisted, text);
    }
    name(field);
    if (state == SlotType::State::null) {
      text += "null";
    } else {
      write_value(value, *row.type, text);
    }
  }
  for (; unlisted != last; ++unlisted) {
    name(unlisted.key());
    write_tree(*unlisted, text);
  }
  text += separator == '{' ? "{}" : "}";
}

}  // namespace rtfx
