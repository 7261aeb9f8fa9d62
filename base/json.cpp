#include "base/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace rtfx {

namespace {

using nlohmann::json;

constexpr int kMostLevels = 100;
constexpr size_t kMostBytes = size_t{256} << 20;

/// Returns "line 3, column 7" for the byte at `offset`; lines and columns count from 1.
std::string place(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t begin = before.rfind('\n') + 1;  // 0 where there is none
  return fmt::format("line {}, column {}", line, before.size() - begin + 1);
}

}  // namespace

json parse_json(std::string_view text, std::string_view where, std::string_view remedy) {
  text = without_byte_order_mark(text, where);
  std::vector<std::set<std::string>> keys;  // of the objects that are not closed yet
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMostLevels)
      throw UserError(where, fmt::format("is nested more than {} levels deep", kMostLevels),
                      remedy);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw UserError(where, fmt::format("holds the key '{}' twice", value.get<std::string>()),
                      "leave one of them out");
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), check);
  } catch (const json::parse_error& error) {
    // The library's message puts its own name and the exception's number before the reason.
    std::string reason = error.what();
    if (const size_t colon = reason.rfind(": "); colon != std::string::npos)
      reason.erase(0, colon + 2);
    throw UserError(where, fmt::format("not JSON: {}: {}", place(text, error.byte - 1), reason),
                    remedy);
  } catch (const json::exception& error) {  // for example 1e999
    const std::string text_of = error.what();
    const size_t quote = text_of.find('\'');
    throw UserError(
        where,
        quote == std::string::npos
            ? "holds a number that is too large"
            : fmt::format("holds the number {}, which is too large", text_of.substr(quote)),
        "numbers go up to 1e308");
  }
}

json read_json_file(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (file->bytes().size() > kMostBytes)
    throw UserError(path.string(), "is too large for a JSON file", "check the path");
  return parse_json(file->bytes(), path.string());
}

std::string to_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string to_line(const nlohmann::json& value) { return to_text(value) + "\n"; }

std::string text_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

JsonView JsonView::child(const std::string& key, const nlohmann::json& value) const {
  return {value, where_ + (nlohmann::json::json_pointer() / key).to_string()};
}

void JsonView::fail(const std::string& allowed) const {
  constexpr size_t kMost = 200;
  std::string text = to_text(*value_);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  throw UserError(where_, fmt::format("{} is not allowed", text), "allowed: " + allowed);
}

void JsonView::check_keys(const std::vector<std::string>& allowed, const char* kind) const {
  if (!value_->is_object()) fail("a JSON object");
  ErrorList errors;
  for (const auto& [key, value] : value_->items()) {
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end())
      errors.add(unknown_name(child(key, value).where(), kind, key, allowed));
  }
  errors.throw_any();
}

std::optional<JsonView> JsonView::find(const std::string& key) const {
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return child(key, *found);
}

JsonView JsonView::at(const std::string& key) const {
  auto found = find(key);
  if (!found) throw UserError(where_, fmt::format("'{}' is missing", key), "add it");
  return *found;
}

std::vector<JsonView> JsonView::elements() const {
  if (!value_->is_array()) return {*this};
  if (value_->empty()) fail("a list with at least one element");
  std::vector<JsonView> list;
  for (size_t i = 0; i < value_->size(); ++i)
    list.push_back(child(std::to_string(i), (*value_)[i]));
  return list;
}

std::string JsonView::text() const {
  if (!value_->is_string() || value_->get_ref<const std::string&>().empty())
    fail("a non-empty string");
  require_no_nul(value_->get_ref<const std::string&>(), where_);
  return value_->get<std::string>();
}

bool JsonView::boolean() const {
  if (!value_->is_boolean()) fail("true | false");
  return value_->get<bool>();
}

int64_t JsonView::integer(int64_t low, int64_t high) const {
  const bool fits = value_->is_number_unsigned()
                        ? value_->get<uint64_t>() <= std::numeric_limits<int64_t>::max()
                        : value_->is_number_integer();
  if (!fits || value_->get<int64_t>() < low || value_->get<int64_t>() > high)
    fail(range_text(low, high));
  return value_->get<int64_t>();
}

double JsonView::number(double low, double high) const {
  // The comparison also refuses NaN. JSON has no NaN, but a value made by a program may be one.
  if (!value_->is_number() || !(value_->get<double>() >= low && value_->get<double>() <= high))
    fail(range_text(low, high));
  return value_->get<double>();
}

std::string JsonView::choice(const std::vector<std::string>& allowed) const {
  if (!value_->is_string()) fail(fmt::format("{}", fmt::join(allowed, " | ")));
  const auto chosen = value_->get<std::string>();
  if (std::find(allowed.begin(), allowed.end(), chosen) == allowed.end()) {
    throw unknown_name(where_, "value", chosen, allowed);
  }
  return chosen;
}

std::filesystem::path JsonView::file() const {
  if (!value_->is_string()) fail("a file");
  const std::filesystem::path path = value_->get<std::string>();
  require_no_nul(path.native(), where_);
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (found.type() == std::filesystem::file_type::not_found)
    throw UserError(where_, fmt::format("no such file: '{}'", path.string()), "check the path");
  if (error)
    throw UserError(where_,
                    fmt::format("'{}' cannot be opened: {}", path.string(), error.message()),
                    "check the path and its permissions");
  if (std::filesystem::is_directory(found))
    throw UserError(where_, fmt::format("'{}' is a directory", path.string()), "give a file");
  return path;
}

std::string JsonView::range_text(int64_t low, int64_t high) {
  return high == std::numeric_limits<int64_t>::max() ? fmt::format("an integer from {}", low)
                                                     : fmt::format("an integer {}..{}", low, high);
}

std::string JsonView::range_text(double low, double high) {
  return fmt::format("a number {}..{}", low, high);
}

}  // namespace rtfx
