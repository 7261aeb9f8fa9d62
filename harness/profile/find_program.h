// Where NVIDIA's profilers are installed.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace rtfx {

/// `name` on PATH, else the last file of the first of these patterns (glob) that has a program.
/// Empty where there is none.
std::filesystem::path find_program(const std::string& name, std::span<const char* const> patterns);

/// Files of a pattern, sorted by name.
std::vector<std::filesystem::path> files_like(const std::string& pattern);

}  // namespace rtfx
