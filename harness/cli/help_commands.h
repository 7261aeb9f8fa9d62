// What the program says of its own command line: completion scripts, the manual page, and what was
// meant by a mistyped word. All of it is read from the CLI11 application.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace rtfx {

/// `completion` and `man`.
void add_help_commands(CLI::App& app);

/// The error to show where `arguments` name a command or an option that there is not, with the
/// nearest one; none where something else is wrong with them.
std::optional<UserError> mistyped(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace rtfx
