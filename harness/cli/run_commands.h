// The subcommands that take a configuration and measure, and `rtfx validate`.
#pragma once

#include <CLI/CLI.hpp>

#include "harness/config/config.h"

namespace rtfx {

/// The subcommand stores its exit code in `code`, which must outlive the parsing.
void add_run_commands(CLI::App& app, int& code);

// `rtfx validate`: prints what a configuration asks for, and about how long it takes.

/// Checks everything that can be checked without running: files, decoders, options and kinds of
/// models. Then prints models, data, cases, and an estimate of the time (harness/run/estimate.h).
/// With `as_json`, prints {"config": with all defaults, "cases": [{"case", "against"}],
/// "estimate"}. Throws UserError.
void print_plan(const Config& config, bool as_json);

}  // namespace rtfx
