#include "algorithms/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"

namespace rtfx {
namespace {

using nlohmann::json;

std::mutex notices_mutex;
std::set<std::string> notices_given;
bool notices_silent = false;

/// Once in a process, so that an option of ten decoders is no ten lines.
void notice(std::string_view where, const std::string& text) {
  const std::lock_guard lock(notices_mutex);
  if (notices_given.insert(text).second && !notices_silent)
    fmt::print(stderr, "rtfx: {}: {}\n", where, text);
}

/// The present name of a value, or of each in a list of them.
json present_value(const json& value, const FormerName& former, std::string_view where,
                   const std::string& option) {
  if (value.is_array()) {
    json list = json::array();
    for (const json& one : value) list.push_back(present_value(one, former, where, option));
    return list;
  }
  const auto found =
      value.is_string() ? former.values.find(value.get<std::string>()) : former.values.end();
  if (found == former.values.end()) return value;
  notice(where, fmt::format("value '{}' of option '{}' is now called '{}'", found->first, option,
                            found->second));
  return found->second;
}

}  // namespace

void silence_notices() {
  const std::lock_guard lock(notices_mutex);
  notices_silent = true;
}

json with_present_names(json object, std::string_view where,
                        const std::vector<OptionInfo>& options) {
  if (!object.is_object()) return object;
  json present = object;
  std::map<std::string, std::vector<std::string>> renamed;  // former name -> present ones
  std::map<std::string, std::vector<OptionInfo>> members;   // of options that are objects
  for (const OptionInfo& option : options) {
    if (const size_t dot = option.name.find('.'); dot != std::string::npos) {
      members[option.name.substr(0, dot)].push_back(option);
      members[option.name.substr(0, dot)].back().name.erase(0, dot + 1);
      continue;
    }
    for (const FormerName& former : option.formerly) {
      if (!object.contains(former.name)) continue;
      if (former.name != option.name) {
        if (present.contains(option.name)) {
          throw UserError(
              fmt::format("{}/{}", where, former.name),
              fmt::format("option '{}', as this is now called, is given too", option.name),
              "leave one of them out");
        }
        renamed[former.name].push_back(option.name);
      }
      present[option.name] = present_value(object[former.name], former, where, option.name);
    }
  }
  for (const auto& [former, names] : renamed) {
    present.erase(former);
    notice(where,
           fmt::format("option '{}' is now called '{}'", former, fmt::join(names, "' and '")));
  }
  for (const auto& [name, options_of_member] : members) {
    if (present.contains(name))
      present[name] =
          with_present_names(present[name], fmt::format("{}/{}", where, name), options_of_member);
  }
  return present;
}

namespace detail {
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

}  // namespace detail
}  // namespace rtfx
