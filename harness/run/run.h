// `rtfx run`: executes a plan and writes its journal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/config/config.h"
#include "harness/results/journal.h"
#include "harness/run/isolated_run.h"
#include "harness/run/shard.h"

namespace rtfx {

/// Runs every case of the plan that the journal does not hold yet. Prints progress and notices to
/// stderr, and the table to stdout. Returns the first of these ExitCodes that applies:
///   kInterrupted  after Ctrl-C
///   kCorrectness  An exact decoder missed its grade, a replay failed, or a WER is too far above
///                 that in fp32.
///   kFailed       A case failed.
///   kOk           otherwise
/// Throws UserError for an error that stops the whole run. A shard runs its part of the utterances,
/// in step with the other shards, and writes into a folder of its own. Shard 0 then writes the
/// journal of the whole run. `task` is the task of a child process (isolated_run.h). `remedy` is
/// the advice of errors for a case that ends the program; empty: that of `rtfx run`.
int run(const Config& config, Journal::Mode mode, const Shard& shard = {},
        const ChildTask& task = {}, const std::string& remedy = {});

/// Continues the journal, which the caller has locked. Prints neither a table nor a verdict.
/// Returns false after an interrupt, which it reports on stderr. `with_notices` is that of
/// SessionOptions.
bool measure(const Config& config, bool with_notices = true);

}  // namespace rtfx
