// `rtfx emissions`: writes the log-probabilities that CTC searches take, for other programs.
#pragma once

#include <filesystem>

#include "harness/config/config.h"

namespace rtfx {

/// Encodes the first dataset of the configuration with its first model, dtype and batch, as `rtfx
/// run` does. Makes `folder` if necessary, and writes to it:
///   emissions.npy     [sum of frames, V+1] float32: ln p, blank in the last column, utterance
///                     after utterance in the order of the dataset
///   utterances.jsonl  a line for each: id, frames, seconds, text (null without a reference)
/// Returns an ExitCode. Throws UserError, also for a model without a CTC head.
int write_emissions(const Config& config, const std::filesystem::path& folder);

}  // namespace rtfx
