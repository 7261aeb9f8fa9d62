// `rtfx stream --model M -`: live text of what comes in.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/streaming/encoder_streams.h"

namespace rtfx {

struct ListenOptions {
  std::filesystem::path model;
  std::string source;       // "-" (standard input), a file, or empty with `microphone`
  bool microphone = false;  // what ALSA's arecord records
  int raw_rate = 0;         // of headerless 16 bit samples on standard input; 0: WAV
  std::vector<int64_t> att_context_size;
  std::string language;                 // of a model with prompts; empty: the model's default
  std::optional<BufferSeconds> buffer;  // of models without caches; unset: its defaults
  std::string decoder, decoder_options = "{}";
  std::string device = "auto", dtype = "fp32";
  int64_t threads = 0;
  double pause = 1;                     // seconds without a token that end an utterance; 0: off
  std::vector<std::string> end_tokens;  // find_end_tokens()
  std::filesystem::path vad;            // the file of a VoiceDetector; empty: off
  double vad_silence = 0.5;             // seconds without speech that end an utterance
  double decode_again = 8;              // seconds of speech without a token; 0: off
  bool json = false;
};

/// One line for each utterance, on a terminal with the text so far below it; as JSON a line for
/// each change, too. What was heard and how fast is said on stderr. Returns an ExitCode. Throws
/// UserError; utterances that came before have been printed.
int listen(const ListenOptions& options);

}  // namespace rtfx
