// The subcommands that watch a program over its revisions: noise and dashboard.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

void add_watch_commands(CLI::App& app);

}  // namespace rtfx
