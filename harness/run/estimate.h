// An estimate of the time that a plan takes, made before any case has run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/plan.h"
#include "harness/run/loaded_inputs.h"

namespace rtfx {

struct Estimate {
  double audio_seconds = 0;  // audio that the encoder gets in all rounds, without padding
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
Estimate estimate(const LoadedInputs& inputs, const std::vector<CaseGroup>& plan);

/// "12 s", "3 min", "1 h 20 min".
std::string duration_text(double seconds);

/// "about 3 min", "between 3 min and 1 h 20 min".
std::string time_text(const Estimate& time);

/// Returns a notice if the dataset has fewer utterances than a batch may hold, else an empty text.
std::string batch_notice(const LoadedInputs& inputs, const CaseGroup& group);

}  // namespace rtfx
