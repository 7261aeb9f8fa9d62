// Profiles made by processes of their own: this program again, or another one that runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/config.h"

namespace rtfx {

/// `profile CONFIG --laps N` with the overrides that this process got, without the program's name.
/// `only`: as in ProfileOptions.
std::vector<std::string> profile_arguments(const Config& config, int64_t laps,
                                           const std::string& only);

/// Runs `program` (a path) and waits; what it prints goes to standard error. Its exit code; -1
/// where it could not be started or came to no end of its own.
int run_program(const std::string& program, std::vector<std::string> arguments);

/// This program's file.
std::string own_program();

}  // namespace rtfx
