// The subcommands that make decoding graphs, and those that write searches for other programs.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

// The subcommands store their exit code in `code`, which must outlive the parsing.

void add_graph(CLI::App& app, int& code);
void add_emissions(CLI::App& app, int& code);
void add_lattice(CLI::App& app, int& code);

}  // namespace rtfx
