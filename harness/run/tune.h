// `rtfx tune`: chooses weights of decoders on a development set.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/config/config.h"
#include "harness/results/journal.h"

namespace rtfx {

/// Tunes the weights of each entry of the configuration's key "tune". It measures the decoder once
/// with each of the weights that search_weights() asks for (weight_search.h), in the first of
/// `dtypes` and with the first batch size. It prints the word error rate of each with its 95 %
/// interval over resampled utterances.
///
/// The journals are in <output>/tune/<decoder>. With Journal::Mode::resume, points that they hold
/// are not measured again. At the end, it writes `document` with the chosen weights to `target`.
/// This is the configuration of the file with the overrides of `--set`.
///
/// Returns an ExitCode. Throws UserError, also if `target` is in another folder than the
/// configuration, since paths in it are relative to that folder.
int tune(const Config& config, nlohmann::json document, const std::filesystem::path& target,
         Journal::Mode mode);

/// Says on stderr which options of the configuration `rtfx tune` has chosen on utterances of the
/// sets that the configuration measures. Ignores sets that are not there.
void note_tuned_on_test_sets(const Config& config);

}  // namespace rtfx
