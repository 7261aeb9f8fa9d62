// One way to every kind of dataset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/audio.h"
#include "datasets/utterance.h"

namespace rtfx {

/// Exactly one of `manifest`, `librispeech` and `files` is set.
struct DatasetSource {
  /// In which a run decodes it; empty: in all of the run's.
  std::vector<int64_t> batch_sizes;
  std::string id;
  std::string manifest;            // JSON lines (manifest.h), or a LibriSpeech folder
  std::string fallback;            // another, for where `manifest` does not exist; may be empty
  std::string librispeech;         // a LibriSpeech folder (librispeech.h)
  std::vector<std::string> files;  // audio files or folders of them (audio_files.h)
  std::string stand_in;            // what the audio is, if it stands in for the set it is named
                                   // after; empty: what a file stand_in.txt says, if there is one
  int64_t limit = 0;               // use the first so many utterances; 0: all
  double seconds = 0;              // cut each utterance to this length; 0: as it is
};

/// Lists the utterances. Opens an audio file only where nothing else tells its length.
///
/// A set is a stand-in for the one it is named after in three cases. `source.stand_in` says so; the
/// fallback is read; or there is a file stand_in.txt beside the manifest or in the LibriSpeech
/// folder, whose first line describes the audio.
///
/// Throws UserError where the reader of the set's kind does, for an audio file without a readable
/// header, and where neither the manifest nor its fallback exists.
Dataset load_dataset(const DatasetSource& source);

/// Its audio as read_audio() gives it; of a dataset with a length for its utterances, cut there, or
/// repeated up to it. Throws what read_audio() does.
Audio read_utterance(const Utterance& utterance);

}  // namespace rtfx
