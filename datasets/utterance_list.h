// Collects the utterances of a source and keeps their ids unique.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "datasets/utterance.h"

namespace rtfx {

class UtteranceList {
 public:
  /// Throws UserError at `where` (file:line) for an id that is there already: a repeated clip would
  /// flatter caches and count twice in every rate.
  void add(Utterance utterance, std::string_view where);
  std::vector<Utterance> take() { return std::move(utterances_); }

 private:
  std::vector<Utterance> utterances_;
  std::unordered_set<std::string> ids_;
};

/// A whole file as text. Throws UserError for a missing file, a directory or one that cannot be
/// read.
std::string read_text_file(const std::filesystem::path& path);

}  // namespace rtfx
