// `rtfx tune`: chooses weights of decoders on a development set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/config/config.h"
#include "harness/results/journal.h"

namespace rtfx {

// The search for the weights with the fewest errors. It follows a fixed rule, and does no input or
// output itself.

using Weights = std::vector<double>;  // one for each range

struct WeighedErrors {
  Weights weights;
  int64_t errors = 0;
};

/// Returns the number of errors at each point. No point is asked for twice.
using CountErrors = std::function<std::vector<int64_t>(const std::vector<Weights>&)>;

/// Returns all points that were tried, the chosen one first. It has the fewest errors. Among
/// equals, the smaller magnitude of the first range wins, then that of the second, and so on.
///
/// A range of choices has the values 0, 1, ..., and the search below runs for each combination of
/// choices. Among equals, the choice that stands first counts as smaller.
///
/// The search begins with a grid of `grid` equally spaced values of each range, including both
/// ends. Then it halves the spacing, and moves to the best neighbour along each range as long as
/// one is better. It repeats this until the spacing is at most `tolerance` of each range. Values
/// are rounded to 1e-6, and values of integers to integers.
std::vector<WeighedErrors> search_weights(const std::vector<TuneRange>& ranges, int64_t grid,
                                          double tolerance, const CountErrors& count);

/// Tunes the weights of each entry of the configuration's key "tune". It measures the decoder once
/// with each of the weights that search_weights() asks for. It does so in fp32 if `dtypes` has it,
/// else in the first of `dtypes`, and with the first batch size. It prints the word error rate of
/// each with its 95 % interval over resampled utterances.
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
