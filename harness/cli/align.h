// `rtfx align`: when the words of given texts are said in recordings.
#pragma once

#include <filesystem>
#include <string>

#include "harness/cli/transcribe.h"

namespace rtfx {

struct AlignOptions : SpeechOptions {
  AlignOptions() { format = "tsv"; }

  std::filesystem::path text;  // see texts_of(); empty: texts of manifests
  std::string head = "auto";   // or "ctc" or "transducer"
  double band = 5;             // AlignerOptions::band_seconds
};

/// Prints or writes the words of each file with their times and confidences, in the order given. A
/// file without a text, with a text that does not fit it, or that cannot be read gives one line on
/// stderr, and the others go on. Returns an ExitCode. Throws UserError for anything else.
int align(const AlignOptions& options);

}  // namespace rtfx
