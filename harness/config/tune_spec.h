// The key "tune" of a configuration: which options of a decoder `rtfx tune` chooses on which set.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace rtfx {

/// Where the value of an option is looked for, both ends included.
struct TuneRange {
  double low = 0, high = 1;
  bool is_integer = false;  // of the decoder's option
};

struct TuneSpec {
  std::string decoder;                       // id
  DatasetSource dataset;                     // the development set
  std::map<std::string, TuneRange> options;  // by dotted name, "lm.alpha"
  std::vector<std::string> models;           // ids; empty: those of the decoder
  int64_t grid = 5;                          // values of each option in the first, coarse search
  double tolerance = 0.02;  // share of a range, to which the weights are found in the end
  std::string where = {};   // JSON pointer, for errors found later
};

}  // namespace rtfx
