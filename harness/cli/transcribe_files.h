// The input files of `rtfx transcribe` and `rtfx align`, and the files of their results.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "datasets/audio.h"
#include "datasets/media.h"
#include "speech/transcript/formats.h"

namespace rtfx {

// Inputs: files, folders, patterns, manifests and standard input.

/// The channel and the track that --channel and --track ask for.
struct TrackChoice {
  AudioChoice audio;
  bool separate = false;  // each channel is an input of its own
};

/// `channel` is "mix", "separate" or a number from 1 on. Throws UserError.
TrackChoice track_choice(const std::string& channel, int track);

struct TranscribeInput {
  std::string name;             // name that the user gave; "-" for standard input
  std::filesystem::path audio;  // path that can be opened
  /// Path of the output without its ending: the name of the input file, below the folder that the
  /// user named.
  std::filesystem::path output;
  std::string recording = {};                // TranscribedFile::recording; different for each input
  std::string id = {};                       // id of a manifest's utterance; empty for other inputs
  std::optional<std::string> reference;      // from a manifest
  AudioSegment segment = {};                 // from a manifest
  std::optional<std::string> language = {};  // from a manifest
  bool own_request = false;                  // the manifest's line has `boost` or `allowed`
  bool separate = false;  // `segment.channel` is one of several channels that are transcribed

  /// Returns the name that messages show.
  std::string label() const;
};

/// A file without a name, for a copy of standard input. The system deletes it with this object, or
/// with the process, even if a signal ends it.
class ScratchFile {
 public:
  /// Makes the file at the first call. Throws UserError if it cannot be made.
  int descriptor();
  /// Returns a path by which this process and its children can read the file, after descriptor().
  std::filesystem::path path() const;

 private:
  Descriptor file_;  // children such as ffmpeg inherit it
};

/// Expands the arguments in their order:
///
///   a folder                      all files with sound below it
///   a pattern (`*`, `?`, `[...]`) what matches it, each as if the user had named it; but a file
///                                 with that very name is no pattern
///   "-"                           standard input, whose bytes are copied to `scratch`
///   a manifest (is_manifest())    its utterances
///   anything else                 an audio file, which is opened only when it is read
///
/// If two inputs have one name, `recording` also has as many of their folders as are needed to tell
/// them apart. If that is not enough, it has the file's ending, and at last a number. Separate
/// channels of a file are separate inputs with one `recording`.
///
/// Calls `complain` for each argument that matches no file or cannot be read. Prints a notice about
/// files of a folder that are left out (files_below()).
std::vector<TranscribeInput> transcribe_inputs(
    const std::vector<std::filesystem::path>& arguments, const TrackChoice& choice,
    ScratchFile& scratch, const std::function<void(const UserError&)>& complain);

// Writes results to standard output, or to a file for each input.

class TranscriptWriter {
 public:
  /// If `folder` is empty, results go to standard output. There, plain text begins with the file's
  /// name if there are `several` transcripts. Throws UserError for several transcripts in a format
  /// whose files hold one each.
  TranscriptWriter(TranscriptFormat format, std::filesystem::path folder, bool several);

  /// Prints the transcript, or writes it to <folder>/<input.output>.<format> and prints that path.
  /// Inputs of one name get files of different names. A file that an earlier run left under the
  /// name is kept as <name>.1, <name>.2, ... Throws UserError if the file cannot be written.
  /// Without a folder, throws std::system_error if standard output cannot be written.
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
