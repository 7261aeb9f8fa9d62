// Phrases to boost, in the forms that options, manifests and files use.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace rtfx {

struct Phrase {
  std::string text;  // words with one space between them
  /// Score of its first token, from which those of the later ones follow
  /// (algorithms/shared/biasing/phrase_tree.h). For words of a decoding graph, it is how much less
  /// the word costs. 0: the value of the boosting option.
  double weight = 0;
  /// The place of the phrase: "names.txt:7", "run.json#/decoders/0/options/boost/phrases/2".
  std::string where;
  bool operator==(const Phrase&) const = default;
};

/// Reads "phrase" or {"phrase": "...", "weight": 2.5}, or a list of these. Throws UserError, with
/// place and phrase, for an empty phrase, a phrase that is not UTF-8, and another field. A weight
/// must be a number above 0 and up to 1000.
std::vector<Phrase> parse_phrases(const JsonView& value);

/// Reads a file, plain or gzip, with a phrase on each line. A tab and a weight may follow the
/// phrase. Empty lines are skipped. Throws UserError with file, line and phrase.
std::vector<Phrase> read_phrases(const std::filesystem::path& path);

/// Returns the JSON that parse_phrases() reads.
nlohmann::json to_json(const std::vector<Phrase>& phrases);

}  // namespace rtfx
