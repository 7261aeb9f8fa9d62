// Where `rtfx transcribe` puts its results: standard output, or a file for each input.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "harness/cli/transcribe_inputs.h"
#include "speech/transcript/formats.h"

namespace rtfx {

class TranscriptWriter {
 public:
  /// `folder` empty: standard output, where `several` transcripts in plain text begin with their
  /// file's name. Throws UserError for several of a format whose files hold one each.
  TranscriptWriter(TranscriptFormat format, std::filesystem::path folder, bool several);

  /// Prints the transcript; or writes it to <folder>/<input.output>.<format>, and prints that path.
  /// Inputs of one name get files of different names. A file of that name that an earlier run left
  /// there is kept as <name>.1, <name>.2, ... Throws UserError where it cannot be written.
  void put(const TranscribeInput& input, const TranscribedFile& file);

 private:
  std::filesystem::path target_of(const TranscribeInput& input);

  TranscriptFormat format_;
  std::filesystem::path folder_;
  bool several_;
  bool begun_ = false;
  std::set<std::filesystem::path> written_;
};

}  // namespace rtfx
