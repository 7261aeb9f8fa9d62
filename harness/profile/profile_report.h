// The records and the table of `rtfx profile` (docs/journal.md, "profile").
#pragma once

#include <string>
#include <vector>

#include "harness/profile/profile_figures.h"
#include "harness/profile/range_log.h"
#include "harness/results/records.h"

namespace rtfx {

/// Returns the figures of a region. Those of the GPU are null without `with_gpu`. The busy ones are
/// also null where a graph's kernels are unknown: none is on record, or (`whole_graphs`) each run
/// of a graph is, as one. Never NaN.
record::ProfiledRegion profiled_region(const RegionFigures& figures, bool with_gpu,
                                       bool whole_graphs = false);

struct FigureOptions {
  bool with_gpu = false;
  bool whole_graphs = false;  // runs of CUDA graphs are on record as one kernel
  size_t top = 5;             // kernels listed of each region
};

/// Figures of all regions and phases of a case. What is not known for a reason gets a remark.
Named<record::ProfiledRegion> profiled_regions(const std::vector<LoggedRange>& ranges,
                                               const std::vector<Span>& laps,
                                               const Activity& activity,
                                               const FigureOptions& options,
                                               std::vector<std::string>& remarks);

/// The kernels that each segment launched, with their seconds over all laps, longest first.
std::vector<record::KernelRuns> profiled_segments(const std::vector<LoggedRange>& segments,
                                                  const Activity& activity);

/// Names of the regions of a record in the order in which data pass through them, phases behind
/// their region.
std::vector<std::string> ordered_regions(const Named<record::ProfiledRegion>& regions);

/// Table of records of kind "profile" and "failure", to stdout.
void print_profile(const record::Records& records);

}  // namespace rtfx
