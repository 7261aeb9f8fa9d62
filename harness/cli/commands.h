// The subcommands of the rtfx program.
#pragma once

namespace rtfx {

/// Parses the command line, runs the subcommand and returns the exit code; every error has been
/// printed to stderr as one line.
int run_command_line(int argc, char** argv);

}  // namespace rtfx
