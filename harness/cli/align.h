// `rtfx align`: finds the times at which the words of given texts are said in recordings.
#pragma once

#include <filesystem>
#include <string>

#include "harness/cli/transcribe.h"

namespace rtfx {

struct AlignOptions : SpeechOptions {
  AlignOptions() { format = "tsv"; }

  std::filesystem::path text;  // as texts_of() reads it; empty: the texts of manifests
  std::string head = "auto";   // "auto", "ctc" or "transducer"
  double band = 5;             // AlignerOptions::band_seconds
};

/// Prints or writes the words of each file with their times and confidences, in the order given.
/// A file gives one line on stderr if it cannot be read, has no text, or has a text that does not
/// fit it. The other files go on. Returns an ExitCode. Throws UserError for any other error.
int align(const AlignOptions& options);

}  // namespace rtfx
