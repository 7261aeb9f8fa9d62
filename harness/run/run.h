// `rtfx run`: executes a plan and writes its journal.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "harness/config/config.h"
#include "harness/results/journal.h"
#include "harness/run/isolated_run.h"
#include "harness/run/shard.h"

namespace rtfx {

/// Runs every case of the plan that the journal does not hold yet, and returns an ExitCode. It is
/// kInterrupted after Ctrl-C. Otherwise it is kCorrectness if an exact decoder missed its grade, a
/// replay failed, or a WER is too far above that in fp32. Otherwise it is kFailed if a case failed,
/// else kOk. Throws UserError for what stops the whole run. Prints progress and notices to
/// stderr and the table to stdout. A shard runs its part of the utterances, in step with the
/// others, into its own folder; shard 0 then writes the journal of the whole. `task`: of a child.
int run(const Config& config, Journal::Mode mode, const Shard& shard = {},
        const ChildTask& task = {});

/// Continues the journal, which the caller has locked, without table and verdict. Returns false
/// after an interrupt, which it reports on standard error.
bool measure(const Config& config);

}  // namespace rtfx
