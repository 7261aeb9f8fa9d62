// A dataset in memory: a list of utterances without their samples.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/phrases.h"
#include "datasets/audio.h"

namespace rtfx {

struct Utterance {
  std::string id;               // unique in its dataset
  std::filesystem::path audio;  // as it can be opened
  double seconds = 0;           // of the manifest or the audio file's header; 0 if unknown
  std::optional<std::string> text;
  std::vector<Phrase> boost = {};         // phrases that are likely in it
  std::vector<std::string> allowed = {};  // characters that its text may have; empty: all
  std::string where = {};                 // of these two, for errors
  AudioSegment segment = {};              // of the recording, by a manifest
  double cut_seconds = 0;                 // length that the audio is cut or repeated to; 0: its own
};

struct Dataset {
  std::string id;
  std::vector<Utterance> utterances;
  /// The checksum of the manifest's bytes, of all transcripts, or of the names and sizes of files.
  std::string sha256;
  std::string fallback;  // manifest that was read because the named one does not exist
  std::string stand_in;  // what the audio is, where it stands in for the set it is named after
};

}  // namespace rtfx
