// The subcommands that take a configuration and measure, and `rtfx validate`.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

/// The subcommand stores its exit code in `code`, which must outlive the parsing.
void add_run_commands(CLI::App& app, int& code);

}  // namespace rtfx
