#include "base/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr int kMostLevels = 100;
constexpr size_t kMostBytes = size_t{256} << 20;

/// "line 3, column 7" of the byte at `offset`, both from 1.
std::string place(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t begin = before.rfind('\n') + 1;  // 0 where there is none
  return fmt::format("line {}, column {}", line, before.size() - begin + 1);
}

}  // namespace

json parse_json(std::string_view text, std::string_view where, std::string_view remedy) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
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
    // The library's text names itself and an exception's number before the reason.
    std::string reason = error.what();
    if (const size_t colon = reason.rfind(": "); colon != std::string::npos)
      reason.erase(0, colon + 2);
    throw UserError(where, fmt::format("not JSON: {}: {}", place(text, error.byte - 1), reason),
                    remedy);
  } catch (const json::exception& error) {  // 1e999
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

std::string to_line(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rtfx
