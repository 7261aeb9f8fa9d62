// Text normalisation: named, versioned rules that turn text into the words that are scored. Name
// and version belong to every WER, since rules change figures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

struct Normalizer {
  std::string name;
  int version = 1;
  std::vector<std::string> (*words)(std::string_view utf8_text) = nullptr;
};

/// "none": split on ASCII white space.
/// "basic_english": Unicode NFKC, lower case; letters, digits and the apostrophe (') stay, anything
/// else separates words.
/// "whisper_english": whisper_english.h.
const std::vector<Normalizer>& normalizers();

/// Throws UserError at `where` for an unknown name.
const Normalizer& find_normalizer(std::string_view name, std::string_view where);

}  // namespace rtfx
