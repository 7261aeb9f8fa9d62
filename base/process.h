// This program's path, and other programs that it runs.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace rtfx {

/// Returns the path of this program.
std::filesystem::path own_program();

/// The descriptors from which a program reads and to which it writes.
struct ProgramFiles {
  int in = STDIN_FILENO, out = STDOUT_FILENO;
};

/// Runs `program`, a path or a name on PATH, and waits for it. Returns its exit code; -1 if it
/// could not be started or was ended by a signal.
int run_program(const std::string& program, std::vector<std::string> arguments,
                const ProgramFiles& files = {});

}  // namespace rtfx
