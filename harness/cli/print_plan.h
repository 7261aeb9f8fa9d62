// `rtfx validate`: what a configuration asks for, and about how long it takes.
#pragma once

#include "harness/config/config.h"

namespace rtfx {

/// Checks everything that can be checked without running: files, decoders, options, kinds of
/// models; then prints models, data, cases, and the estimate of time (harness/run/estimate.h).
/// `as_json`: {"config": with all defaults, "cases": [{"case", "against"}], "estimate"}. Throws
/// UserError.
void print_plan(const Config& config, bool as_json);

}  // namespace rtfx
