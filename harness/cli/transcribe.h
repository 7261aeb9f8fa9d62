// `rtfx transcribe`: text of audio files, what a newcomer tries first.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rtfx {

struct TranscribeOptions {
  std::filesystem::path model;
  std::vector<int64_t> att_context_size;  // of a cache-aware encoder; empty: the model's default
  std::vector<std::filesystem::path>
      files;                           // audio files; folders stand for the audio files in them
  std::string decoder;                 // empty: label_looping, or ctc_greedy for a CTC model
  std::string decoder_options = "{}";  // JSON object
  std::vector<std::string> plugins;    // shared libraries that register further decoders
  std::string device = "auto";
  std::string dtype = "fp32";
  int64_t batch_size = 1;
  int64_t threads = 0;
  bool json = false;
};

/// Prints one line per file to stdout in the order given, and on stderr what was done and how fast.
/// A file that cannot be read, or needs more memory than is there, gives one line on stderr, as
/// does each file of a batch that fails; the others go on. Returns an ExitCode. Throws UserError
/// for anything else.
int transcribe(const TranscribeOptions& options);

}  // namespace rtfx
