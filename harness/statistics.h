// Figures of repeated rounds. Numbers in, numbers out.
#pragma once

#include <vector>

namespace rtfx {

struct Summary {
  double mean = 0;
  double sd = 0;  // of the sample (n - 1); 0 for one value
  double min = 0;
  double max = 0;

  double cv() const { return mean == 0 ? 0 : sd / mean; }
};

/// `values` must not be empty.
Summary summarize(const std::vector<double>& values);

}  // namespace rtfx
