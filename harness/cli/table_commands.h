// The subcommands that make tables and pages: reproduce, report.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

/// `code`: where a subcommand leaves its exit code; it must outlive the parsing.
void add_table_commands(CLI::App& app, int& code);

}  // namespace rtfx
