// The subcommands that work on finished runs: compare, gate, verify, export, summary, diff-runs and
// rescore.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

/// The subcommands store their exit code in `code`, which must outlive the parsing.
void add_result_commands(CLI::App& app, int& code);

}  // namespace rtfx
