// `rtfx transcribe`: text of audio files, what a newcomer tries first.
#pragma once

#include "harness/cli/transcribe_options.h"

namespace rtfx {

/// Prints or writes the transcript of each file in the order given, and says on stderr what was
/// done and how fast. A file that cannot be read, or needs more memory than is there, gives one
/// line on stderr, as does each file of a batch that fails; the others go on. Returns an ExitCode.
/// Throws UserError for anything else.
int transcribe(const TranscribeOptions& options);

}  // namespace rtfx
