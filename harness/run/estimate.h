// About how long a plan takes, before anything of it has run.
#pragma once

#include <string>
#include <vector>

#include "harness/config/plan.h"
#include "harness/run/workspace.h"

namespace rtfx {

struct Estimate {
  double audio_seconds = 0;  // that the encoder goes through, all rounds of all groups
  int64_t passes = 0;        // of a dataset: groups times rounds
  double low = 0, high = 0;  // seconds; equal where all cases have been measured before
  std::string basis;         // in words: what the seconds follow from
};

/// From the journal of the configuration's output folder where that measured the same cases on the
/// same device, otherwise from the encoder's size: bounds that differ by a factor of ten and more.
/// Loading is not in it. Datasets of unknown length count as nothing; `basis` then says so.
Estimate estimate(const Workspace& workspace, const std::vector<CaseGroup>& plan);

/// "12 s", "3 min", "1 h 20 min".
std::string duration_text(double seconds);

}  // namespace rtfx
