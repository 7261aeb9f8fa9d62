// Provenance: the record that opens each invocation's part of a journal.
#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <string>

#include "harness/results/records.h"
#include "harness/run/loaded_inputs.h"

namespace rtfx {

/// `started` is in ISO 8601 and UTC.
record::Provenance provenance_record(const LoadedInputs& inputs, at::Device device,
                                     const std::string& started);

/// Returns the key that decides whether a result can be continued or compared. It covers the
/// configuration of the case, checksums of model and data, the build's revision, and the device.
std::string result_key(const LoadedInputs& inputs, const CaseGroup& group,
                       const PlannedDecoder& decoder, const nlohmann::json& options,
                       at::Device device);

/// Returns the time now as "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace rtfx
