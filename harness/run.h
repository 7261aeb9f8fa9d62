// `rtfx run`: executes a plan and writes its journal.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/config.h"
#include "harness/isolated_run.h"
#include "harness/journal.h"
#include "harness/shard.h"

namespace rtfx {

enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kCorrectness = 13, kInterrupted = 130 };

/// Runs every case of the plan that the journal does not hold yet and returns an ExitCode: kFailed
/// if a case failed, kCorrectness if an exact decoder fell below the required grade, kInterrupted
/// after Ctrl-C. Throws UserError for what stops the whole run. Prints progress and notices to
/// stderr and the table to stdout. A shard runs its part of the utterances, in step with the
/// others, into its own folder; shard 0 then writes the journal of the whole. `task`: of a child.
int run(const Config& config, Journal::Mode mode, const Shard& shard = {},
        const ChildTask& task = {});

/// The ExitCode that the records of a whole run ask for; says on stderr what is below the required
/// grade.
int outcome(const std::vector<nlohmann::json>& records, const Config& config);

/// Cases of exact decoders whose verdict is below `required` for their dtype.
std::vector<std::string> below_required(const std::vector<nlohmann::json>& records,
                                        const std::map<std::string, std::string>& required);

}  // namespace rtfx
