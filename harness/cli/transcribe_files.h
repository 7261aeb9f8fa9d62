// The files of `rtfx transcribe` and `rtfx align`: their inputs, and where their results go.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "datasets/audio.h"
#include "datasets/media.h"
#include "speech/transcript/formats.h"

namespace rtfx {

// The inputs: files, folders, patterns, manifests and standard input.

/// The audio that --channel and --track ask for.
struct TrackChoice {
  AudioChoice audio;
  bool separate = false;  // each channel by itself
};

/// `channel`: "mix", "separate" or a number from 1 on. Throws UserError.
TrackChoice track_choice(const std::string& channel, int track);

struct TranscribeInput {
  std::string name;             // as it was named; "-" for standard input
  std::filesystem::path audio;  // as it can be opened
  /// The output's path without its ending: the file's own name, below the folder that was named.
  std::filesystem::path output;
  std::string recording = {};            // TranscribedFile::recording, another one for each input
  std::string id = {};                   // of a manifest's utterance; empty for other inputs
  std::optional<std::string> reference;  // likewise
  AudioSegment segment = {};             // likewise
  std::optional<std::string> language = {};  // likewise
  bool own_request = false;                  // a line of a manifest has `boost` or `allowed`
  bool separate = false;  // `segment.channel` is one of several that are transcribed

  /// The name in messages.
  std::string label() const;
};

/// A folder of this process's own for copies, made when it is asked for, and gone at the end.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// Throws UserError where it cannot be made.
  const std::filesystem::path& path();

 private:
  std::filesystem::path path_;
};

/// Expands the arguments in their order:
///
///   a folder                      all files with sound below it
///   a pattern (`*`, `?`, `[...]`) the files that match it, unless a file has that very name
///   "-"                           standard input, whose bytes are copied to a file in `scratch`
///   a manifest (is_manifest())    its utterances
///   anything else                 an audio file, which is opened only when it is read
///
/// Where the files of two inputs have one name, `recording` has as many of their folders as tell
/// them apart, then the file's ending, and at last a number.
///
/// Calls `complain` for each argument that stands for nothing or cannot be read.
///
/// Separate channels of a file are inputs of their own, with one `recording`.
std::vector<TranscribeInput> transcribe_inputs(
    const std::vector<std::filesystem::path>& arguments, const TrackChoice& choice,
    ScratchFolder& scratch, const std::function<void(const UserError&)>& complain);

// Where results go: standard output, or a file for each input.

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
