// The subcommands that measure: run, bench, stream, emissions, lattice, profile; and validate.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

/// `code`: where a subcommand leaves its exit code; it must outlive the parsing.
void add_run_commands(CLI::App& app, int& code);

}  // namespace rtfx
