// `rtfx emissions`: the log-probabilities that CTC searches work on, for other programs to read.
#pragma once

#include <filesystem>

#include "harness/config/config.h"

namespace rtfx {

/// Encodes the first dataset of the configuration with its first model, dtype and batch, as `rtfx
/// run` does, and writes to `folder`, which is made if need be:
///   emissions.npy     [sum of frames, V+1] float32: ln p, blank in the last column, utterance
///                     after utterance in the order of the dataset
///   utterances.jsonl  a line for each: id, frames, seconds, text (null without a reference)
/// Returns an ExitCode. Throws UserError, for a model without a CTC head too.
int write_emissions(const Config& config, const std::filesystem::path& folder);

}  // namespace rtfx
