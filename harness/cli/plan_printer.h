// `rtfx validate`: prints what a configuration asks for, and about how long it takes.
#pragma once

#include "harness/config/config.h"

namespace rtfx {

/// Checks everything that can be checked without running: files, decoders, options and kinds of
/// models. Then prints models, data, cases, and an estimate of the time (harness/run/estimate.h).
/// With `as_json`, prints {"config": with all defaults, "cases": [{"case", "against"}],
/// "estimate"}. Throws UserError.
void print_plan(const Config& config, bool as_json);

}  // namespace rtfx
