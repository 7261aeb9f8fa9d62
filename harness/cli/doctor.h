// `rtfx doctor`: what this machine can run, and why not.
#pragma once

namespace rtfx {

/// Prints one line per finding to stdout: "ok", "note" (something works less well) or "no", with
/// the reason. Changes nothing. Returns kOk, or kFailed where even the CPU decoders cannot be
/// measured: a build that is not for measuring.
int doctor();

}  // namespace rtfx
