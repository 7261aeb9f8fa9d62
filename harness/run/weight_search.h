// Which weights make the fewest errors: a search by a fixed rule. Numbers alone: no I/O, no clock,
// no chance.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/config/tune_spec.h"

namespace rtfx {

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
/// The search begins with a grid of `grid` equally spaced values of each range, both ends included.
/// Then it halves the spacing and tries the neighbours of the best point along each range, as long
/// as one is better. It repeats this until the spacing is at most `tolerance` of each range. Values
/// are rounded to 1e-6, those of integers to integers.
std::vector<WeighedErrors> search_weights(const std::vector<TuneRange>& ranges, int64_t grid,
                                          double tolerance, const CountErrors& count);

}  // namespace rtfx
