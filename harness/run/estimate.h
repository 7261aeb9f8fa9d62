// Estimates of the time that a plan takes, and of the largest batch that fits into memory.
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

// An estimate of the time that a plan takes, made before any case has run.

struct Estimate {
  double audio_seconds = 0;  // audio that the encoder processes in all rounds of all groups
  int64_t passes = 0;        // passes over a dataset: the sum over groups of their rounds
  double low = 0, high = 0;  // bounds in seconds; equal if all cases have been measured before
  std::string basis;         // a sentence that says what the bounds rest on
};

/// Returns whether the configuration's device is a GPU.
bool runs_on_gpu(const Config& config);

/// Estimates the time of `plan`. If the journal of the configuration's output folder holds the same
/// cases on the same device, their measured times are taken. Otherwise the bounds follow from the
/// encoder's size, and differ by a factor of ten or more. On a CPU they rest on the measured time
/// of a matrix product as wide as the encoder. Loading does not count. Datasets of unknown length
/// count as empty, and `basis` then says so.
Estimate estimate(const Workspace& workspace, const std::vector<CaseGroup>& plan);

/// "12 s", "3 min", "1 h 20 min".
std::string duration_text(double seconds);

/// "about 3 min", "between 3 min and 1 h 20 min".
std::string time_text(const Estimate& time);

/// Returns a notice if the dataset has fewer utterances than a batch may hold, else an empty text.
std::string batch_notice(const Workspace& workspace, const CaseGroup& group);

// `batch_sizes: "max"`: the largest batch that fits.

/// Returns the largest number from 1 to `most` for which `fits` is true, to within 1/32; 0 if even
/// 1 does not fit. Halves `most` until a number fits, and then halves the distance to the smallest
/// one that did not fit. Never asks for a number above one that did not fit.
int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits);

/// Returns the largest batch size of the group, between 1 and the number of utterances of its
/// dataset. Returns none if audio or model cannot be used, which the run then records as failures.
///
/// On a GPU, a size fits if a whole round of the group runs without an error of memory, in the
/// group's mode and with the check of its results. Other errors are left to the run itself. On a
/// CPU, the process would be killed for lack of memory. There, a size fits if the least memory that
/// the encoder needs is at most half of what the process can get.
///
/// `begin` is called with the runner of each trial, before the runner prepares. Throws Interrupted
/// between batches.
std::optional<int64_t> largest_batch(Workspace& workspace, CaseGroup group, at::Device device,
                                     const std::function<void(CaseGroupRunner&)>& begin);

}  // namespace rtfx
