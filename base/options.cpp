#include "base/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rtfx {
namespace {

using nlohmann::json;

/// Returns whether a value is null, "" or [].
bool says_nothing(const json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || (value.is_array() && value.empty());
}

}  // namespace

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
