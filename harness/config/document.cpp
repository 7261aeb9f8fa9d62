#include "harness/config/document.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "base/error.h"
#include "base/json.h"

namespace rtfx {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// The member `key` of an object, or the element of a list; made where there is none yet. A list
/// grows by one element at most. `pointer` gets its key.
json* member(json& value, const std::string& key, json::json_pointer& pointer,
             const std::string& where) {
  if (value.is_object() || (value.is_null() && key != "0")) {
    pointer /= key;
    return &value[key];
  }
  if (!value.is_array() && !value.is_null())
    throw UserError(where,
                    fmt::format("no such place in the configuration: what '{}' is to be a "
                                "part of is a single value",
                                key),
                    "check the path");
  size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || end != key.data() + key.size() || index > value.size()) {
    throw UserError(
        where,
        fmt::format("no such place in the configuration: '{}' in a list of {}", key, value.size()),
        fmt::format("give an index 0..{}", value.size()));
  }
  pointer /= index;
  return &value[index];
}

/// JSON, or else a text, which need not be quoted.
json override_value(const std::string& text, const std::string& where) {
  const bool structured = text.starts_with('{') || text.starts_with('[');
  if (structured || json::accept(text)) return parse_json(text, where);
  return text;
}

/// Sets a.b.0.c in the document; the pointer to what it set.
std::string apply(json& document, const std::string& text) {
  const std::string where = "--set " + text;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError(where, "not of the form a.b=value",
                    "for example --set protocol.measured_rounds=5");
  }
  json* place = &document;
  json::json_pointer pointer;
  std::istringstream keys(text.substr(0, equals));
  for (std::string key; std::getline(keys, key, '.');) place = member(*place, key, pointer, where);
  *place = override_value(text.substr(equals + 1), where);
  return pointer.to_string();
}

}  // namespace

void Origins::add(const std::string& pointer, const std::string& text) {
  overrides_.push_back(text);
  std::erase_if(set_, [&](const auto& inner) { return inner.first.starts_with(pointer + "/"); });
  set_[pointer] = text;
}

const std::string* Origins::override_at(std::string_view where) const {
  const std::string begin = root();
  if (!where.starts_with(begin)) return nullptr;
  std::string_view pointer = where.substr(begin.size());
  for (size_t end = pointer.size(); end != pointer.npos && end != 0;) {
    pointer = pointer.substr(0, end);
    if (const auto found = set_.find(pointer); found != set_.end()) return &found->second;
    end = pointer.rfind('/');
  }
  return nullptr;
}

std::string Origins::relative(const std::string& where, const std::string& path) const {
  if (override_at(where) == nullptr || fs::path(path).is_absolute()) return path;
  const fs::path folder = fs::absolute(file_).parent_path().lexically_normal();
  return fs::absolute(path).lexically_normal().lexically_relative(folder).string();
}

std::string Origins::opened(const std::string& where, const std::string& path) const {
  return (file_.parent_path() / relative(where, path)).lexically_normal().string();
}

UserError Origins::named(const UserError& error) const {
  const std::string* text = override_at(error.where());
  return text == nullptr ? error : UserError("--set " + *text, error.what());
}

void Origins::throw_named(const UserError& error) const {
  ErrorList found, all;
  found.add(error);
  for (const UserError& one : found.all()) all.add(named(one));
  all.throw_any();
  throw error;
}

Document::Document(json given, const fs::path& file, const std::vector<std::string>& overrides)
    : value(std::move(given)), origins(file) {
  ErrorList errors;
  for (const std::string& text : overrides)
    errors.run([&] { origins.add(apply(value, text), text); });
  errors.throw_any();
}

Document read_document(const fs::path& file, const std::vector<std::string>& overrides) {
  if (fs::is_directory(file)) throw UserError(file.string(), "is a directory", "give a JSON file");
  return {read_json_file(file), file, overrides};
}

}  // namespace rtfx
