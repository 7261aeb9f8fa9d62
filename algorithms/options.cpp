#include "algorithms/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace rtfx::detail {
namespace {

[[noreturn]] void wrong_value(const nlohmann::json& value, std::string_view where,
                              const std::string& allowed) {
  throw UserError(where, fmt::format("{} is not allowed", value.dump()), "allowed: " + allowed);
}

}  // namespace

bool read_bool(const nlohmann::json& value, std::string_view where) {
  if (!value.is_boolean()) wrong_value(value, where, "true | false");
  return value.get<bool>();
}

int64_t read_integer(const nlohmann::json& value, std::string_view where, int64_t low,
                     int64_t high) {
  if (!value.is_number_integer() || value.get<int64_t>() < low || value.get<int64_t>() > high) {
    wrong_value(value, where, range_text(low, high));
  }
  return value.get<int64_t>();
}

double read_number(const nlohmann::json& value, std::string_view where, double low, double high) {
  // Written so that NaN, which is no JSON but may come from a program, is refused too.
  if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high)) {
    wrong_value(value, where, number_text(low, high));
  }
  return value.get<double>();
}

std::filesystem::path read_path(const nlohmann::json& value, std::string_view where) {
  if (!value.is_string()) wrong_value(value, where, "a file");
  const std::filesystem::path path = value.get<std::string>();
  if (!std::filesystem::exists(path)) {
    throw UserError(where, fmt::format("no such file: '{}'", path.string()), "check the path");
  }
  if (std::filesystem::is_directory(path)) {
    throw UserError(where, fmt::format("'{}' is a directory", path.string()), "give a file");
  }
  return path;
}

std::string read_choice(const nlohmann::json& value, std::string_view where,
                        const std::vector<std::string>& allowed) {
  if (!value.is_string()) wrong_value(value, where, choice_text(allowed));
  const auto text = value.get<std::string>();
  if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) {
    throw unknown_name(where, "value", text, allowed);
  }
  return text;
}

void check_keys(const nlohmann::json& object, std::string_view where,
                const std::vector<std::string>& names) {
  if (object.is_null()) return;
  if (!object.is_object())
    throw UserError(where, "options must be a JSON object", "write {\"name\": value}");
  for (const auto& [key, value] : object.items()) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      throw unknown_name(fmt::format("{}/{}", where, key), "option", key, names);
    }
  }
}

void missing(std::string_view where, const std::string& name) {
  throw UserError(fmt::format("{}/{}", where, name), "is missing", "it must be given");
}

std::string range_text(int64_t low, int64_t high) {
  return high == std::numeric_limits<int64_t>::max() ? fmt::format("an integer from {}", low)
                                                     : fmt::format("an integer {}..{}", low, high);
}

std::string number_text(double low, double high) {
  return fmt::format("a number {}..{}", low, high);
}

std::string choice_text(const std::vector<std::string>& allowed) {
  return fmt::format("{}", fmt::join(allowed, " | "));
}

}  // namespace rtfx::detail
