// `rtfx stream --model M -`: prints live text of incoming audio.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/open_model.h"
#include "models/streaming/encoder_streams.h"

namespace rtfx {

struct ListenOptions : ModelArguments {
  std::string source;       // "-" (standard input), a file, or empty with `microphone`
  bool microphone = false;  // takes audio that ALSA's arecord records
  /// Sample rate of 16-bit samples without a header on standard input; 0: there is a header.
  int raw_rate = 0;
  std::optional<BufferSeconds> buffer;  // for models without caches; unset: the defaults
  std::string decoder, decoder_options = "{}";
  std::string device = "auto";
  int64_t threads = 0;
  double pause = 1;  // seconds without a token that end an utterance; 0: no limit
  std::vector<std::string> end_tokens;  // as find_end_tokens() takes them
  std::filesystem::path vad;            // file of a VoiceDetector; empty: no detector
  double vad_silence = 0.5;             // seconds without speech that end an utterance
  /// Seconds without a token, with 1.5 s of speech in them, that are decoded again; 0: never.
  double decode_again = 8;
  bool json = false;
};

/// Prints one line for each utterance. On a terminal, the text so far stands below the lines. As
/// JSON, each change of the text is a line too. Says on stderr how much audio was heard and how
/// fast. Returns an ExitCode. Throws UserError; earlier utterances have been printed by then.
int listen(const ListenOptions& options);

}  // namespace rtfx
