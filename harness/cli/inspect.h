// `rtfx inspect`, `rtfx list` and `rtfx doctor` print what there is, and change nothing.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

// `rtfx inspect`: what a model file holds, and which decoders serve it.

/// Everything that `rtfx inspect --json` prints. No weight is looked at.
nlohmann::json describe_model(const Checkpoint& checkpoint);

/// Prints it, as lines or as JSON; returns an ExitCode. Throws UserError for what cannot be read.
int inspect(const std::filesystem::path& model, bool as_json);

// `rtfx list`: the decoders with their options, or the keys of a configuration.

/// `what`: "decoders", "config", the name of a decoder, or a key of the configuration, with its
/// members. Throws UserError for anything else.
void print_list(const std::string& what, bool as_json);

// `rtfx doctor`: what this machine can run, and why not.

/// Prints one line per finding to stdout: "ok", "note" (something works less well) or "no", with
/// the reason. Changes nothing. Returns kOk, or kFailed where even the CPU decoders cannot be
/// measured: a build that is not for measuring.
int doctor();

}  // namespace rtfx
