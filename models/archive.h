// Members of a tar archive (plain or gzip) in memory, through libarchive.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace rtfx {

/// Reads the members for which `wanted(base name)` holds, keyed by base name. Throws UserError for
/// a missing, unreadable, truncated or foreign file.
std::map<std::string, std::string> read_archive(
    const std::filesystem::path& path, const std::function<bool(std::string_view)>& wanted);

}  // namespace rtfx
