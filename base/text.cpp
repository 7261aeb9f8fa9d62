#include "base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace rtfx {

std::vector<std::string_view> split_at(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; (begin = text.find_first_not_of(separators, begin)) != text.npos;) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

void require_no_nul(std::string_view text, std::string_view where) {
  if (text.find('\0') != text.npos) throw UserError(where, "has a NUL character", "leave it out");
}

std::string single_spaced(std::string_view text) {
  return fmt::format("{}", fmt::join(split_at(text, kAsciiSpace), " "));
}

}  // namespace rtfx
