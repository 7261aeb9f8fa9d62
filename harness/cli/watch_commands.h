// The subcommands for watching a program over its revisions: noise, bisect, dashboard.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

void add_watch_commands(CLI::App& app);

}  // namespace rtfx
