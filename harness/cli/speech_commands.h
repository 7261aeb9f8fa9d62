// The subcommands that turn recordings into transcripts: `rtfx transcribe` and `rtfx align`.
#pragma once

#include <CLI/CLI.hpp>

namespace rtfx {

/// The subcommand stores its exit code in `code`, which must outlive the parsing.
void add_speech_commands(CLI::App& app, int& code);

}  // namespace rtfx
