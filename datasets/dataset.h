// Data sets: lists of utterances from manifests, LibriSpeech folders and plain audio files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/phrases.h"
#include "datasets/audio.h"

namespace rtfx {

/// An utterance of a data set, without its samples.
struct Utterance {
  std::string id;               // unique in its dataset
  std::filesystem::path audio;  // as it can be opened
  double seconds = 0;           // of the manifest or the audio file's header; 0 if unknown
  std::optional<std::string> text;
  std::vector<Phrase> boost = {};  // phrases that are likely in it
  /// Characters that its text may have; an empty list: all; nothing: those of the decoder.
  std::optional<std::vector<std::string>> allowed = {};
  std::optional<std::string> language = {};  // that a manifest states
  std::string where = {};                    // of these three, for errors
  AudioSegment segment = {};                 // of the recording, by a manifest
  double cut_seconds = 0;  // length that the audio is cut or repeated to; 0: its own
};

struct Dataset {
  std::string id;
  std::vector<Utterance> utterances;
  /// The checksum of the manifest's bytes, of all transcripts, or of the names and sizes of files.
  std::string sha256;
  std::string stand_in;  // what the audio is, where it stands in for the set it is named after
};

/// Collects the utterances of a source and keeps their ids unique.
class UtteranceList {
 public:
  /// Throws UserError at `where` (file:line) for an id that is there already: a repeated clip would
  /// flatter caches and count twice in every rate.
  void add(Utterance utterance, std::string_view where);
  std::vector<Utterance> take() { return std::move(utterances_); }

 private:
  std::vector<Utterance> utterances_;
  std::unordered_map<std::string, std::string> ids_;  // and where each of them is
};

/// A whole file as text. Throws UserError for a missing file, a directory or one that cannot be
/// read.
std::string read_text_file(const std::filesystem::path& path);

/// Whether a file is a manifest: its name ends in .json, .jsonl or .manifest, in any case and also
/// with .gz behind it, or it begins with "{".
bool is_manifest(const std::filesystem::path& path);

/// The text of a manifest, which may be gzip. Throws as read_text_file() does.
std::string read_manifest_text(const std::filesystem::path& path);

enum class ManifestAudio : uint8_t { must_exist, may_be_missing };

/// The utterances of the manifest `contents`, which was read from `path`. NeMo writes manifests as
/// one JSON object per line:
///
///   {"audio_filepath": "a/b.flac", "duration": 3.2, "text": "what was said"}
///
///   audio_filepath  absolute, or relative to the manifest's folder
///   offset          seconds at which the utterance begins in the file; may be left out or null
///   duration        seconds of the utterance, as NeMo cuts it (cut() in datasets/audio.h);
///                   left out or null: up to the end of the file
///   id              or utterance_id: text or an integer; may be left out or null
///   text            the reference; may be left out or null
///   boost           phrases that are likely in the utterance (base/phrases.h); may be left out
///   allowed         a list of the characters that its text may have; an empty one allows all;
///                   may be left out
///   target_lang, lang  the language of its text, for models with prompts; the first that is there
///                   counts; may be left out or null
///
/// Without an id, that is the path without its extension, with "@OFFSET" behind it where there is
/// an offset. Another segment of the same offset has "+DURATION" behind that, too.
///
/// A line may also be a cut of Lhotse: {"id", "start", "duration", "channel", "supervisions":
/// [{"text", "language", ...}], "recording": {"sources": [{"type": "file", "source": PATH}], ...}}.
/// The text is that of its supervisions one after the other, and the language is that of the first
/// one with a language. Its path may be relative to the working folder, too. Throws UserError for
/// other lines of Lhotse, and for a recording with `transforms`.
///
/// Other keys are ignored, and blank lines are skipped. Throws UserError at "path:line" for a line
/// that is not a JSON object. It also throws for a field that is missing, of the wrong type or out
/// of range (a duration is above 0). Throws it for a repeated id or segment, and for audio that
/// does not exist (unless `audio` allows that). Throws at "path" for an empty manifest.
std::vector<Utterance> parse_manifest(const std::filesystem::path& path, std::string_view contents,
                                      ManifestAudio audio = ManifestAudio::must_exist);

/// Every file below `folder` whose name ends in one of `endings` (lower case; the file's case is
/// ignored), sorted by path. Links are followed. Throws UserError when `folder` is no directory or
/// holds none. It also throws for a folder that cannot be read, a link to nothing, and a pipe or
/// device of such a name. With `skipped`, these three are put there instead, and the others are
/// returned.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::vector<std::string>& endings,
                                               std::vector<UserError>* skipped = nullptr);

/// One utterance per file, its path being its id; a directory stands for the files with sound below
/// it (media_endings()). Throws UserError for a missing path, a pipe or device, an empty folder or
/// a file named twice.
std::vector<Utterance> list_audio_files(const std::vector<std::string>& paths);

/// Exactly one of `manifest`, `librispeech` and `files` is set.
struct DatasetSource {
  /// In which a run decodes it; empty: in all of the run's.
  std::vector<int64_t> batch_sizes;
  std::string id;
  std::string manifest;     // JSON lines (parse_manifest), also gzip, or a LibriSpeech folder
  std::string librispeech;  // a LibriSpeech folder
  std::vector<std::string> files;  // audio files or folders of them
  std::string stand_in;            // what the audio is, if it stands in for the set it is named
                                   // after; empty: what a file stand_in.txt says, if there is one
  int64_t limit = 0;               // use the first so many utterances; 0: all
  /// Cut the utterances to these lengths in turn; empty, or 0: as they are.
  std::vector<double> seconds;
};

/// Lists the utterances. Opens an audio file only where nothing else tells its length.
///
/// A set is a stand-in for the one it is named after in two cases. `source.stand_in` says so; or
/// there is a file stand_in.txt beside the manifest or in the LibriSpeech folder, whose first line
/// describes the audio.
///
/// Throws UserError where the reader of the set's kind does, and for an audio file without a
/// readable header. The error for a missing manifest names the command that makes the set.
Dataset load_dataset(const DatasetSource& source);

/// Its audio as read_media() gives it; of a dataset with a length for its utterances, cut there, or
/// repeated up to it. Throws what read_media() does.
Audio read_utterance(const Utterance& utterance);

}  // namespace rtfx
