// The subcommands that make tables and pages: reproduce and report.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

/// The subcommands store their exit code in `code`, which must outlive the parsing.
void add_table_commands(CLI::App& app, int& code);

}  // namespace rtfx
