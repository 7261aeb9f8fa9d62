// Descriptions of the command line, read from the CLI11 application: completion scripts, the manual
// page, and suggestions for mistyped words.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace rtfx {

/// Adds `completion`, `reference` and `man`.
void add_help_commands(CLI::App& app);

/// Returns the error for a command or an option in `arguments` that does not exist; it names the
/// nearest one. Returns none if anything else is wrong.
std::optional<UserError> mistyped(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace rtfx
