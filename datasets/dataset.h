// Lists the utterances of data sets, from manifests (manifest.h), LibriSpeech folders
// (librispeech.h) and plain audio files (audio_files.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/audio.h"
#include "datasets/utterance.h"

namespace rtfx {

struct Dataset {
  std::string id;
  std::vector<Utterance> utterances;
  /// The checksum of the manifest's bytes, of all transcripts, or of the names and sizes of files.
  std::string sha256;
  std::string stand_in;  // the audio's origin, if it stands in for the set of this name
  std::vector<std::string> notices = {};  // files that were left out (files_below())
};

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
