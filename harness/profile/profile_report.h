// The records and the table of `rtfx profile` (docs/journal.md, "profile").
#pragma once

#include <string>
#include <vector>

#include "harness/profile/profile_figures.h"
#include "harness/profile/range_log.h"
#include "harness/results/records.h"

namespace rtfx {

/// Returns the figures of a region. GPU figures are null without `with_gpu`. Busy figures are also
/// null if the kernels of a graph are unknown: none is recorded, or each run of a graph is recorded
/// as one (`whole_graphs`). No figure is NaN.
record::ProfiledRegion profiled_region(const RegionFigures& figures, bool with_gpu,
                                       bool whole_graphs = false);

struct FigureOptions {
  bool with_gpu = false;
  bool whole_graphs = false;  // each run of a CUDA graph is recorded as one kernel
  size_t top = 5;             // number of kernels to list for each region
};

/// Returns the figures of all regions and phases of a case. A figure that is unknown for a known
/// reason has a remark.
Named<record::ProfiledRegion> profiled_regions(const std::vector<LoggedRange>& ranges,
                                               const std::vector<Span>& laps,
                                               const Activity& activity,
                                               const FigureOptions& options,
                                               std::vector<std::string>& remarks);

/// Returns the kernels that each segment launched, with their seconds over all laps, longest first.
std::vector<record::KernelRuns> profiled_segments(const std::vector<LoggedRange>& segments,
                                                  const Activity& activity);

/// Returns the names of a record's regions in the order in which data pass through them. Phases
/// follow their region.
std::vector<std::string> ordered_regions(const Named<record::ProfiledRegion>& regions);

/// Prints a table of the records of kind "profile" and "failure" to stdout.
void print_profile(const record::Records& records);

}  // namespace rtfx
