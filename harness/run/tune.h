// `rtfx tune`: weights of decoders chosen on a development set.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/config/config.h"
#include "harness/results/journal.h"

namespace rtfx {

/// Tunes the weights of each entry of the configuration's key "tune". It measures the decoder with
/// the weights that search_weights() asks for, each once, in fp32 or the first of `dtypes`, with
/// the first batch size. It prints the word error rate of each with its 95 % interval over
/// resampled utterances.
///
/// The journals are in <output>/tune/<decoder>; with Journal::Mode::resume their points are not
/// measured again. At the end it writes `document`, from which the configuration was read, to
/// `target` with the chosen weights. Returns an ExitCode. Throws UserError, also where `target` is
/// in another folder than the configuration, whose paths are relative to it.
int tune(const Config& config, nlohmann::json document, const std::filesystem::path& target,
         Journal::Mode mode);

}  // namespace rtfx
