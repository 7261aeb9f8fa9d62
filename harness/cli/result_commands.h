// The subcommands that read journals.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

// The subcommands that work on finished runs: compare, gate, verify, export, summary,
// diff-runs, rescore.

/// The subcommand stores its exit code in `code`, which must outlive the parsing.
void add_result_commands(CLI::App& app, int& code);

// The subcommands that make tables and pages: reproduce, report.

/// The subcommand stores its exit code in `code`, which must outlive the parsing.
void add_table_commands(CLI::App& app, int& code);

// The subcommands that watch a program over its revisions: noise and dashboard.

void add_watch_commands(CLI::App& app);

}  // namespace rtfx
