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

/// The error to show where `arguments` name a command or an option that there is not, with the
/// nearest one; none where something else is wrong with them.
std::optional<UserError> mistyped(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace rtfx
