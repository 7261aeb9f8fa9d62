// The gate's rows for other programs: JSON, JUnit XML for a continuous integration's list of tests,
// Markdown for its summary of a job.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/gate.h"

namespace rtfx {

/// {"verdict": the gravest, "rows": [{"case", "what", "verdict", "reason", "baseline", "current",
/// "change": {"estimate", "low", "high"}, "tolerance", "noise_floor"}]}; null for what a row lacks.
nlohmann::json gate_json(const std::vector<GateRow>& rows);

/// A test case for each row, by the name of the case and of what was judged: a failure for
/// REGRESSED and CORRECTNESS, an error for INVALID and INCONCLUSIVE. `allow_inconclusive`: that one
/// is skipped.
std::string gate_junit(const std::vector<GateRow>& rows, bool allow_inconclusive);

/// The verdict as a heading, then a table: what is worse than PASS first, the rest folded in.
std::string gate_markdown(const std::vector<GateRow>& rows);

}  // namespace rtfx
