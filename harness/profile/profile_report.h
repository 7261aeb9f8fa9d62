// The records and the table of `rtfx profile` (docs/journal.md, "profile").
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/profile/profile_figures.h"
#include "harness/profile/range_log.h"

namespace rtfx {

/// Figures of a region as JSON; those of the GPU are null without `with_gpu`, and the busy ones
/// also where a graph's kernels are unknown: none is on record, or (`whole_graphs`) each run of a
/// graph is, as one. Never NaN.
nlohmann::json region_json(const RegionFigures& figures, bool with_gpu, bool whole_graphs = false);

struct FigureOptions {
  bool with_gpu = false;
  bool whole_graphs = false;  // runs of CUDA graphs are on record as one kernel
  size_t top = 5;             // kernels listed of each region
};

/// Figures of all regions and phases of a case. What is not known for a reason gets a remark.
nlohmann::json regions_json(const std::vector<LoggedRange>& ranges, const std::vector<Span>& laps,
                            const Activity& activity, const FigureOptions& options,
                            nlohmann::json& remarks);

/// The kernels that each segment launched, with their seconds over all laps, longest first.
nlohmann::json segments_json(const std::vector<LoggedRange>& segments, const Activity& activity);

/// Names of the regions of a record in the order in which data pass through them, phases behind
/// their region.
std::vector<std::string> ordered_regions(const nlohmann::json& regions);

/// Table of records of kind "profile" and "failure", to stdout.
void print_profile(const std::vector<nlohmann::json>& records);

}  // namespace rtfx
