// `rtfx transcribe`: text of audio files, what a newcomer tries first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/cli/transcribe_files.h"

namespace rtfx {

/// The arguments that `rtfx transcribe` and `rtfx align` share.
struct SpeechOptions {
  std::filesystem::path model;
  std::vector<int64_t> att_context_size;     // of a cache-aware encoder; empty: the model's default
  std::string language;                      // of files that state none; empty: the model's default
  std::vector<std::filesystem::path> files;  // as transcribe_files.h takes them
  std::string device = "auto";
  std::string dtype = "fp32";
  int64_t batch_size = 0;  // 0: 1 on a CPU, on a GPU what fits in its memory
  int64_t threads = 0;
  std::string format = "txt";      // speech/transcript/formats.h
  std::filesystem::path output;    // folder of a file for each input; empty: standard output
  bool tokens = false;             // in JSON and TextGrid
  std::string channel = "mix";     // "mix", "separate" or a number from 1 on
  int track = 0;                   // audio track of a container; 0: the first
  double pause = 1;                // seconds without a word that end a segment
  double long_above = 600;         // seconds: longer files are cut (speech/long_audio)
  double chunk = 20, context = 1;  // seconds, of these
};

/// Calls `work` with the recordings of options.files, and with whether all could be listed. One
/// that could not gives a line on stderr. Returns an ExitCode: kOk if all could, and `work` returns
/// true; kInterrupted after an interrupt, which `work` has to look for. Throws UserError.
int with_inputs(const SpeechOptions& options,
                const std::function<bool(const std::vector<TranscribeInput>&, bool)>& work);

struct TranscribeOptions : SpeechOptions {
  std::string decoder;                 // empty: what goes with model and device
  std::string decoder_options = "{}";  // JSON object
  std::filesystem::path boost;         // file of phrases; empty: none
  std::vector<std::string> boost_phrases;
  std::vector<std::string> allowed;  // characters that texts may have; empty: all
  std::vector<std::string> plugins;  // shared libraries that register further decoders
  bool json = false;                 // lines of to_json(Hypothesis) instead of a format
  bool confidence = false;
  std::string confidence_options;  // JSON object, which asks for confidence too; empty: none
  int64_t nbest = 1;               // alternatives in JSON
  bool mbr = false;                // the alternative of the least expected errors is the result
  double decode_again = 8;         // seconds of speech without a word; 0: nothing is
};

/// Prints or writes the transcript of each file in the order given, and says on stderr what was
/// done and how fast. A file that cannot be read, or needs more memory than is there, gives one
/// line on stderr. So does each file of a batch that fails, and the others go on. Returns an
/// ExitCode. Throws UserError for anything else.
int transcribe(const TranscribeOptions& options);

}  // namespace rtfx
