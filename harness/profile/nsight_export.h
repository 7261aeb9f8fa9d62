// Reads a session of Nsight Systems, as `nsys export --type sqlite` writes it: the ranges of
// base/nvtx.h and what CUDA did meanwhile. Versions 2022.4 to 2025.3 of its schema: tables are made
// only where there is something in them, and columns have come with time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/profile/range_log.h"

namespace rtfx {

struct NsightCase {
  std::string name;                 // model/dataset/decoder/b16/fp32
  std::vector<LoggedRange> ranges;  // as a RangeLog that waits behind phases has them
  std::vector<Span> laps;           // its rounds, without those of the warm-up
  Activity activity;                // from the first lap to the end of the last
};

struct NsightSession {
  std::string product;        // "NVIDIA Nsight Systems 2023.4.4.54"
  std::string started;        // of the capture, UTC; empty where it is not known
  std::string gpu;            // its name; empty where nothing ran on one
  bool whole_graphs = false;  // runs of CUDA graphs are on record as a whole
  std::vector<NsightCase> cases;
};

/// Throws UserError for what is no such file, or has no round of a case in it.
NsightSession read_nsight_session(const std::filesystem::path& file);

}  // namespace rtfx
