// Lists the utterances of data sets, from manifests, LibriSpeech folders and plain audio files.
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
  std::filesystem::path audio;  // path that can be opened
  double seconds = 0;           // by the manifest or the audio file's header; 0 = unknown
  std::optional<std::string> text;
  std::vector<Phrase> boost = {};  // phrases for contextual biasing
  /// Characters that its text may have. An empty list allows all. Without a list, those of the
  /// decoder hold.
  std::optional<std::vector<std::string>> allowed = {};
  std::optional<std::string> language = {};  // language in the manifest
  std::string where = {};                    // origin of these three, for errors
  AudioSegment segment = {};                 // segment of the recording, by a manifest
  double cut_seconds = 0;  // length to which the audio is cut or repeated; 0 = its own
};

struct Dataset {
  std::string id;
  std::vector<Utterance> utterances;
  /// The checksum of the manifest's bytes, of all transcripts, or of the names and sizes of files.
  std::string sha256;
  std::string stand_in;  // the audio's origin, if it stands in for the set of this name
  std::vector<std::string> notices = {};  // files that were left out (files_below())
};

/// Collects the utterances of a source and keeps their ids unique.
class UtteranceList {
 public:
  /// Throws UserError at `where` (file:line) for an id that exists already. A repeated utterance
  /// would be in caches already, and would count twice in every error rate.
  void add(Utterance utterance, std::string_view where);
  std::vector<Utterance> take() { return std::move(utterances_); }

 private:
  std::vector<Utterance> utterances_;
  std::unordered_map<std::string, std::string> ids_;  // with the place of each
};

/// Returns a whole file as text. Throws UserError for a missing file, a directory, or a file that
/// cannot be read.
std::string read_text_file(const std::filesystem::path& path);

/// Returns whether a file is a manifest. Its name ends in .json, .jsonl or .manifest, in any case,
/// optionally followed by .gz. A file that begins with "{" is one too.
bool is_manifest(const std::filesystem::path& path);

/// Returns the text of a manifest, which may be gzip. Throws as read_text_file() does.
std::string read_manifest_text(const std::filesystem::path& path);

enum class ManifestAudio : uint8_t { must_exist, may_be_missing };

/// Returns the utterances of the manifest `contents`, which was read from `path`. NeMo writes
/// manifests with one JSON object per line:
///
///   {"audio_filepath": "a/b.flac", "duration": 3.2, "text": "what was said"}
///
///   audio_filepath  absolute, or relative to the manifest's folder
///   offset          seconds at which the utterance begins in the file; may be left out or null
///   duration        seconds of the utterance, as NeMo cuts it (cut() in datasets/audio.h);
///                   if it is left out or null, the utterance lasts to the end of the file
///   id              or utterance_id: text or an integer; may be left out or null
///   text            the reference; may be left out or null
///   boost           phrases for contextual biasing (base/phrases.h); may be left out
///   allowed         a list of the characters that its text may have; an empty one allows all;
///                   may be left out
///   target_lang, lang  the language of its text, for models with prompts; the first that is there
///                   counts; may be left out or null
///
/// An utterance without an id gets its path without the extension. "@OFFSET" follows where there is
/// an offset. For another segment with the same offset, "+DURATION" follows that.
///
/// A line may also be a cut of Lhotse: {"id", "start", "duration", "channel", "supervisions":
/// [{"text", "language", ...}], "recording": {"sources": [{"type": "file", "source": PATH}], ...}}.
/// Its text joins the texts of its supervisions, and its language is that of the first supervision
/// with a language. Its path may be relative to the working folder, too. Throws UserError for other
/// lines of Lhotse, and for a recording with `transforms`.
///
/// Other keys are ignored, and blank lines are skipped. Throws UserError at "path:line" for a line
/// that is not a JSON object. It also throws for a field that is missing, of the wrong type or out
/// of range (a duration must be above 0). It throws for a repeated id or segment, and for audio
/// that does not exist or is a folder (unless `audio` allows that). For several missing files, it
/// throws UserErrors with the first of them and their number. For an empty manifest, it throws at
/// "path".
std::vector<Utterance> parse_manifest(const std::filesystem::path& path, std::string_view contents,
                                      ManifestAudio audio = ManifestAudio::must_exist);

/// Returns every file below `folder` whose name ends in one of `endings`, sorted by path. Endings
/// are lower case, and the case of the file's name is ignored. Links are followed. The files "._*"
/// in which macOS keeps attributes of other files are left out. If `notices` is given, a notice
/// with their number is added to it. Throws UserError if `folder` is no directory or holds no such
/// file. Also throws for a folder that cannot be read, for a broken link, and for a pipe or device
/// with such a name. If `skipped` is given, the last three errors are added to it, and the other
/// files are returned.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::vector<std::string>& endings,
                                               std::vector<std::string>* notices = nullptr,
                                               std::vector<UserError>* skipped = nullptr);

/// The origin of a data set. Exactly one of `manifest`, `librispeech` and `files` is set.
struct DatasetSource {
  /// The batch sizes with which a run decodes it. An empty list means all batch sizes of the run.
  std::vector<int64_t> batch_sizes;
  std::string id;
  std::string manifest;     // JSON lines (parse_manifest), also gzip, or a LibriSpeech folder
  std::string librispeech;  // a LibriSpeech folder
  std::vector<std::string> files;  // audio files, and folders that stand for their audio files
  std::string stand_in;            // the audio's origin, if it stands in for the set of this
                                   // name; empty = by the file stand_in.txt, if there is one
  int64_t limit = 0;               // use only this number of first utterances; 0 = all
  /// Cuts the utterances to these lengths in turn. An empty list, or 0, leaves them as they are.
  std::vector<double> seconds;
};

/// Lists the utterances. Opens an audio file only where nothing else states its length.
///
/// A set may stand in for the one that it is named after, in two cases. Either `source.stand_in`
/// says so, or there is a file stand_in.txt, whose first line describes the audio. That file is
/// beside the manifest or in the LibriSpeech folder.
///
/// The id of an utterance of `files` is its path.
///
/// Throws UserError where the reader of this kind of set does, and for an audio file without a
/// readable header. The error for a missing manifest names the command that makes the set. If
/// several audio files are missing, UserErrors names the first of them and their number.
Dataset load_dataset(const DatasetSource& source);

/// Returns the audio of an utterance, from read_media(). In a set with a length for its utterances,
/// it is cut or repeated to that length. Throws what read_media() does.
Audio read_utterance(const Utterance& utterance);

}  // namespace rtfx
