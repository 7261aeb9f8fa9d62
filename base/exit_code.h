// How the program says to whoever called it what came of a command; docs/reference/output.md lists
// them, and those of `rtfx gate`.
#pragma once

namespace rtfx {

enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kCorrectness = 13, kInterrupted = 130 };

}  // namespace rtfx
