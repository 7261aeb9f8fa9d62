// `rtfx profile --roofline`: what a region has to move and to compute, and how near it comes to the
// most that the device can.
#pragma once

#include <cstdint>
#include <string>

#include "harness/config/config.h"

namespace rtfx {

struct RooflineOptions {
  std::string region = "decode";  // a region of base/nvtx.h
  std::string only;               // only cases with this in their name
  int64_t laps = 3;               // whose time is measured
  int64_t launches = 300;         // kernels of a case that are counted, at most
  int64_t top = 10;               // kernels or operators listed of a case
};

/// Measures the roofline of each case. With a GPU and ncu, a process that ncu runs gives the
/// counters of its kernels. Otherwise the bytes and FLOP of LibTorch's operators are computed from
/// shapes, and marked so. Prints a table and writes <output>/roofline.jsonl (docs/journal.md); an
/// earlier file is kept as roofline.jsonl.N. Returns an ExitCode. Throws UserError.
int roofline(const Config& config, const RooflineOptions& options);

}  // namespace rtfx
