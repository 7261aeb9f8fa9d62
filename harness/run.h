// `rtfx run`: executes a plan and writes its journal.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/config.h"
#include "harness/journal.h"

namespace rtfx {

enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kCorrectness = 13, kInterrupted = 130 };

/// Runs every case of the plan that the journal does not hold yet and returns an ExitCode: kFailed
/// if a case failed, kCorrectness if an exact decoder fell below the required grade, kInterrupted
/// after Ctrl-C. Throws UserError for what stops the whole run. Prints progress and notices to
/// stderr and the table to stdout.
int run(const Config& config, Journal::Mode mode);

/// Cases of exact decoders whose verdict is below `required` for their dtype.
std::vector<std::string> below_required(const std::vector<nlohmann::json>& records,
                                        const std::map<std::string, std::string>& required);

}  // namespace rtfx
