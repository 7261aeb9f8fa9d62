// The outcome of a whole run: the cases that count, and the exit code.
#pragma once

#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/config/plan.h"
#include "harness/results/summaries.h"

namespace rtfx {

/// Returns a message for each case whose word error rate exceeds that of the same case in fp32 by
/// more than the share `allowed`.
std::vector<std::string> above_fp32(const std::vector<CaseSummary>& cases, double allowed);

/// Returns the summaries of the plan's cases. A resumed journal may have others, of an earlier
/// configuration; a notice on stderr names them.
std::vector<CaseSummary> cases_of(const std::vector<CaseGroup>& plan, record::Records records);

/// Returns the ExitCode of a whole run. Says on stderr which results are below the required grade,
/// and why (CaseSummary::inexact()), and prints the messages of above_fp32().
int outcome(const std::vector<CaseSummary>& cases, const Config& config);

}  // namespace rtfx
