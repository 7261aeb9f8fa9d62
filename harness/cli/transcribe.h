// `rtfx transcribe`: writes the text of audio files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/cli/open_model.h"
#include "harness/cli/transcribe_files.h"
#include "speech/long_audio/chunks.h"

namespace rtfx {

/// The arguments that `rtfx transcribe` and `rtfx align` share.
struct SpeechOptions : ModelArguments {
  std::vector<std::filesystem::path> files;  // as transcribe_files.h takes them
  std::string device = "auto";
  int64_t batch_size = 0;  // 0: 1 on a CPU; on a GPU, the size that fits into its memory
  int64_t threads = 0;
  std::string format = "txt";    // as in speech/transcript/formats.h
  std::filesystem::path output;  // folder for one file for each input; empty: standard output
  bool tokens = false;           // writes tokens in JSON and TextGrid
  std::string channel = "mix";   // "mix", "separate" or a number from 1 on
  int track = 0;                 // audio track of a container; 0: the first
  double pause = 1;              // seconds without a word that end a segment
  Cuts cuts;                     // of long files
};

/// Calls `work` with the recordings of options.files, and tells it whether all could be listed. A
/// file that could not be listed gives one line on stderr. Returns kOk if all could be listed and
/// `work` returns true. Returns kInterrupted after an interrupt, which `work` has to look for.
/// Throws UserError.
int with_inputs(const SpeechOptions& options,
                const std::function<bool(const std::vector<TranscribeInput>&, bool)>& work);

struct TranscribeOptions : SpeechOptions {
  std::string decoder;                 // empty: the default for the model and the device
  std::string decoder_options = "{}";  // JSON object
  std::filesystem::path boost;         // file of phrases; empty: no phrases
  std::vector<std::string> boost_phrases;
  std::vector<std::string> allowed;  // characters that texts may contain; empty: all
  std::vector<std::string> plugins;  // shared libraries that register further decoders
  bool json = false;                 // writes lines of to_json(Hypothesis) instead of a format
  bool confidence = false;
  std::string confidence_options;  // JSON object, which also turns confidence on; empty: none
  int64_t nbest = 1;               // number of alternatives in JSON
  bool mbr = false;                // takes the alternative with the least expected errors
  /// Seconds without a token, with 1.5 s of speech in them, that are decoded again; 0: never.
  double decode_again = 8;
};

/// Prints or writes the transcript of each file in the order given. Says on stderr what was done
/// and how fast. A file that cannot be read, or that needs more memory than there is, gives one
/// line on stderr. So does each file of a batch that fails. The other files go on. Returns an
/// ExitCode. Throws UserError for any other error.
int transcribe(const TranscribeOptions& options);

}  // namespace rtfx
