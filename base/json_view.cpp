#include "base/json_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error_list.h"

namespace rtfx {

JsonView JsonView::child(const std::string& key, const nlohmann::json& value) const {
  return {value, where_ + (nlohmann::json::json_pointer() / key).to_string()};
}

void JsonView::fail(const std::string& allowed) const {
  constexpr size_t kMost = 200;
  // A value from the command line need not be UTF-8.
  std::string text = value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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
  // Written so that NaN, which is no JSON but may come from a program, is refused too.
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
  if (!std::filesystem::exists(path))
    throw UserError(where_, fmt::format("no such file: '{}'", path.string()), "check the path");
  if (std::filesystem::is_directory(path))
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
