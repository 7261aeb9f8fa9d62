// Phrases that are to be boosted, as options, manifests and files write them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace rtfx {

struct Phrase {
  std::string text;   // words with one space between them
  double weight = 0;  // of each of its tokens; 0: what the boosting says
  std::string where;  // "names.txt:7", "run.json#/decoders/0/options/boost/phrases/2"
  bool operator==(const Phrase&) const = default;
};

/// "phrase", or {"phrase": "...", "weight": 2.5}; a list of these, or one alone. Throws UserError
/// that names place and phrase for an empty phrase, one that is not UTF-8, another field, and a
/// weight that is no number above 0.
std::vector<Phrase> parse_phrases(const JsonView& value);

/// Lines of a phrase, or of a phrase, a tab and its weight; plain or gzip. Empty lines are skipped.
/// Throws UserError with file, line and phrase.
std::vector<Phrase> read_phrases(const std::filesystem::path& path);

/// The JSON that parse_phrases() reads.
nlohmann::json to_json(const std::vector<Phrase>& phrases);

}  // namespace rtfx
