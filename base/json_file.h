// JSON from files that other people made: nesting is limited, complaints name line and column.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rtfx {

/// The value that `text` holds. Throws UserError with `where`, line and column for what is no JSON,
/// for more than 100 levels of nesting, for a number beyond a double and for a key that an object
/// holds twice. `remedy` of all these.
nlohmann::json parse_json(std::string_view text, std::string_view where,
                          std::string_view remedy = "write plain JSON, without comments");

/// Parses a whole file. Also throws UserError where it cannot be read or has more than 256 MiB.
nlohmann::json read_json_file(const std::filesystem::path& path);

/// One line of JSON with its end. Bytes that are not UTF-8, which file names may hold, become
/// U+FFFD.
std::string to_line(const nlohmann::json& value);

}  // namespace rtfx
