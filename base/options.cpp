#include "base/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/printable.h"

namespace rtfx {
namespace {

using nlohmann::json;

std::mutex notices_mutex;
std::set<std::string> notices_given;
bool notices_silent = false;

/// null, "" or [].
bool says_nothing(const json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || (value.is_array() && value.empty());
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
  notice_once(where, fmt::format("value '{}' of option '{}' is now called '{}'", found->first,
                                 option, found->second));
  return found->second;
}

}  // namespace

void silence_notices() {
  const std::lock_guard lock(notices_mutex);
  notices_silent = true;
}

void notice_once(std::string_view where, const std::string& text) {
  const std::lock_guard lock(notices_mutex);
  if (notices_given.insert(text).second && !notices_silent)
    fmt::print(stderr, "rtfx: {}: {}\n", printable(where), printable(text));
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
    notice_once(where,
                fmt::format("option '{}' is now called '{}'", former, fmt::join(names, "' and '")));
  }
  for (const auto& [name, options_of_member] : members) {
    if (present.contains(name))
      present[name] =
          with_present_names(present[name], fmt::format("{}/{}", where, name), options_of_member);
  }
  return present;
}

std::string default_of(const OptionInfo& option) {
  if (!option.default_text.empty()) return option.default_text;
  const json& value = option.default_value;
  return says_nothing(value) ? "none" : value.dump();
}

std::string detail::choice_text(const std::vector<std::string>& allowed) {
  return fmt::format("{}", fmt::join(allowed, " | "));
}

json detail::without_empty(json object) {
  for (auto it = object.begin(); it != object.end();) {
    it = says_nothing(*it) ? object.erase(it) : std::next(it);
  }
  return object;
}

}  // namespace rtfx
