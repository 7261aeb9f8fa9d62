// The search for the weights with the fewest errors. It follows a fixed rule, and does no input or
// output itself.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/config/config.h"

namespace rtfx {

using Weights = std::vector<double>;  // one for each range

struct WeighedErrors {
  Weights weights;
  int64_t errors = 0;
};

/// Returns the part of a point that stands for choices.
Weights choices_of(const Weights& point, const std::vector<TuneRange>& ranges);

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

}  // namespace rtfx
