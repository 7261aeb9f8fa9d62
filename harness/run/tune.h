// `rtfx tune`: weights of decoders chosen on a development set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/config/config.h"
#include "harness/results/journal.h"

namespace rtfx {

// Which weights make the fewest errors: a search by a fixed rule. Numbers alone: no I/O, no clock,
// no chance.

using Weights = std::vector<double>;  // one for each range

struct WeighedErrors {
  Weights weights;
  int64_t errors = 0;
};

/// Errors of each of the points, none of which was asked for before.
using CountErrors = std::function<std::vector<int64_t>(const std::vector<Weights>&)>;

/// All points that were tried. The first is the chosen one, with the fewest errors; among equals it
/// has the smaller weight by magnitude, of the first range before the second.
///
/// A range of choices has the values 0, 1, ..., and the search below runs for each combination of
/// choices. Among equals the choice that stands first is smaller.
///
/// The search begins with a grid of `grid` equally spaced values of each range, both ends included.
/// Then it halves the spacing and tries the neighbours of the best point along each range, as long
/// as one is better. It repeats this until the spacing is at most `tolerance` of each range. Values
/// are rounded to 1e-6, those of integers to integers.
std::vector<WeighedErrors> search_weights(const std::vector<TuneRange>& ranges, int64_t grid,
                                          double tolerance, const CountErrors& count);

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

/// Says on standard error where `rtfx tune` has chosen options of the configuration ("chosen") on
/// utterances of the sets that it measures. Sets that are not there are left out.
void note_tuned_on_test_sets(const Config& config);

}  // namespace rtfx
