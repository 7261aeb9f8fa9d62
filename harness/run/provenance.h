// Where a result comes from: the record that opens every invocation's part of a journal.
#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <string>

#include "harness/results/records.h"
#include "harness/run/workspace.h"

namespace rtfx {

/// `started`: ISO 8601, UTC.
record::Provenance provenance_record(const Workspace& workspace, at::Device device,
                                     const std::string& started);

/// Key under which results can be continued or compared: configuration of the case, checksums of
/// model and data, build revision, device.
std::string result_key(const Workspace& workspace, const CaseGroup& group,
                       const PlannedDecoder& decoder, const nlohmann::json& options,
                       at::Device device);

/// "2026-01-31T12:00:00Z"
std::string utc_now();

}  // namespace rtfx
