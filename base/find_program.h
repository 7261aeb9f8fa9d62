// Installed programs, and files that match a shell pattern.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace rtfx {

/// Returns `name` on PATH. Otherwise returns the last program of the first pattern that matches
/// one. Returns an empty path where there is none.
std::filesystem::path find_program(const std::string& name, std::span<const char* const> patterns);

/// Existing files that match the shell pattern (`*`, `?`, `[...]`), sorted by name.
std::vector<std::filesystem::path> files_like(const std::string& pattern);

}  // namespace rtfx
