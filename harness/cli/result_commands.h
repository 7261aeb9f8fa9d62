// The subcommands that work on finished runs: compare, gate, export, summary, diff-runs, rescore.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

/// `code`: where a subcommand leaves its exit code; it must outlive the parsing.
void add_result_commands(CLI::App& app, int& code);

}  // namespace rtfx
