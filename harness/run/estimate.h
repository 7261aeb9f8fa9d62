// Estimates: the time that a plan takes, and the largest batch that fits into memory.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/config/plan.h"
#include "harness/run/workspace.h"

namespace rtfx {

class CaseGroupRunner;

// About how long a plan takes, before anything of it has run.

struct Estimate {
  double audio_seconds = 0;  // that the encoder goes through, all rounds of all groups
  int64_t passes = 0;        // of a dataset: groups times rounds
  double low = 0, high = 0;  // seconds; equal where all cases have been measured before
  std::string basis;         // in words: what the seconds follow from
};

/// Whether the configuration's device is a GPU.
bool runs_on_gpu(const Config& config);

/// Returns what the journal of the configuration's output folder says where that measured the same
/// cases on the same device. Otherwise the encoder's size gives bounds that differ by a factor of
/// ten and more. On a CPU, they follow from a product of matrices of the encoder's width, which is
/// measured. Loading is not in it. Datasets of unknown length count as nothing; `basis` then says
/// so.
Estimate estimate(const Workspace& workspace, const std::vector<CaseGroup>& plan);

/// "12 s", "3 min", "1 h 20 min".
std::string duration_text(double seconds);

/// "about 3 min", "between 3 min and 1 h 20 min".
std::string time_text(const Estimate& time);

/// Says that the dataset has fewer utterances than a batch may hold; empty where it has not.
std::string batch_notice(const Workspace& workspace, const CaseGroup& group);

// `batch_sizes: "max"`: the largest batch that fits.

/// The largest of 1 to `most` for which `fits` is true, within 1/32; 0 where not even 1 is. Halves
/// `most` until something fits, then the distance to what did not. What is larger than something
/// that does not fit is not asked for.
int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits);

/// Utterances in a batch of the group, at most those of its dataset and at least 1. On a GPU a size
/// fits where a whole round of the group, in its mode and with the check of its results, runs
/// without an error of memory. Other errors are left to the run itself. On a CPU, where too much
/// memory ends the process, half of what it can get must be enough for what the encoder is reckoned
/// to need at least. None where audio or model cannot be used, which the run records as failures.
/// `begin` is called with the runner of each trial, before it prepares. Throws Interrupted between
/// batches.
std::optional<int64_t> largest_batch(Workspace& workspace, CaseGroup group, at::Device device,
                                     const std::function<void(CaseGroupRunner&)>& begin);

}  // namespace rtfx
