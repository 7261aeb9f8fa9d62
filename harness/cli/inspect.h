// `rtfx inspect`: what a model file holds, and which decoders serve it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Everything that `rtfx inspect --json` prints. No weight is looked at.
nlohmann::json describe_model(const Checkpoint& checkpoint);

/// Prints it, as lines or as JSON; returns an ExitCode. Throws UserError for what cannot be read.
int inspect(const std::filesystem::path& model, bool as_json);

}  // namespace rtfx
