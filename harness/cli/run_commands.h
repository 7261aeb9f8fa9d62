// The subcommands that take a configuration and measure, and `rtfx validate`.
#pragma once

#include <CLI/CLI.hpp>

#include "harness/config/config.h"

namespace rtfx {

/// `code`: where a subcommand leaves its exit code; it must outlive the parsing.
void add_run_commands(CLI::App& app, int& code);

// `rtfx validate`: what a configuration asks for, and about how long it takes.

/// Checks everything that can be checked without running: files, decoders, options, kinds of
/// models; then prints models, data, cases, and the estimate of time (harness/run/estimate.h).
/// `as_json`: {"config": with all defaults, "cases": [{"case", "against"}], "estimate"}. Throws
/// UserError.
void print_plan(const Config& config, bool as_json);

}  // namespace rtfx
