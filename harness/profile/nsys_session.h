// `rtfx profile --nsys`: the laps of a profile as a session of Nsight Systems.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/profile/profile.h"

namespace rtfx {

/// The program nsys: on PATH, of a CUDA toolkit, or in the folders where Nsight Systems and Nsight
/// Compute are installed, the newest first. Empty where there is none.
std::filesystem::path find_nsys();

/// Arguments of `nsys`: record this program's own `profile`. With a GPU, of each case only its
/// laps, a report for each; without, the whole of it. Reports are named `report`, which has no
/// ending.
std::vector<std::string> nsys_arguments(const Config& config, const ProfileOptions& options,
                                        bool with_gpu, const std::filesystem::path& report);

/// Records the configuration's cases, and prints table and files as `rtfx profile` does, with the
/// figures of the session. Reports are <output>/nsys*; none is overwritten. Returns an ExitCode.
/// Throws UserError where there is no nsys, with the command for a machine that has one.
int record_nsys_session(const Config& config, const ProfileOptions& options);

}  // namespace rtfx
