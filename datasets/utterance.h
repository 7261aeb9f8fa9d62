// An utterance of a data set, and lists of them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

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

}  // namespace rtfx
