// `rtfx inspect`, `rtfx list` and `rtfx doctor` print facts, and change nothing.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

// `rtfx inspect`: prints what a model file holds, and which decoders serve it.

/// Returns everything that `rtfx inspect --json` prints. Reads no weight.
nlohmann::json describe_model(const Checkpoint& checkpoint);

/// Prints the description as lines or as JSON, and returns an ExitCode. Throws UserError for a file
/// that cannot be read.
int inspect(const std::filesystem::path& model, bool as_json);

// `rtfx list`: prints the decoders with their options, or the keys of a configuration.

/// `what` is "decoders", "config", the name of a decoder, or a key of the configuration, which is
/// printed with its members. Throws UserError for anything else.
void print_list(const std::string& what, bool as_json);

// `rtfx doctor`: tells what this machine can run, and why it cannot run the rest.

/// Prints one line for each finding to stdout: "ok", "note" (something works less well) or "no",
/// with the reason. Returns kOk. Returns kFailed if the build is not for measuring, since then even
/// decoders on the CPU cannot be measured.
int doctor();

}  // namespace rtfx
