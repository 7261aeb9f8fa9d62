// `rtfx tune`: weights of decoders chosen on a development set.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/config/config.h"
#include "harness/results/journal.h"

namespace rtfx {

/// For each entry of the configuration's key "tune", measures the decoder with the weights that
/// search_weights() asks for (each once, in fp32 or the first of `dtypes`, with the first batch
/// size) and prints the word error rate of each with its 95 % interval over resampled utterances.
/// The journals lie in <output>/tune/<decoder>; with Journal::Mode::resume, what they hold is not
/// measured again. Then writes `document`, from which the configuration was read, with the chosen
/// weights to `target`. Returns an ExitCode. Throws UserError, also where `target` is in another
/// folder than the configuration, whose paths are relative to it.
int tune(const Config& config, nlohmann::json document, const std::filesystem::path& target,
         Journal::Mode mode);

}  // namespace rtfx
