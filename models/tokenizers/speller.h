// Text to token ids, for words that are not a transcript: phrases to be boosted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

class Speller {
 public:
  /// The tokenizer must outlive it.
  explicit Speller(const Tokenizer& tokenizer);

  /// Ids that read `text`, white space aside: by the tokenizer's own rule where it has one, else
  /// the fewest pieces, of which the longer one comes first. Empty where no ids read it. White
  /// space in `text` is single spaces between words.
  std::vector<int32_t> operator()(const std::string& text) const;

 private:
  std::vector<int32_t> fewest(const std::string& text) const;
  bool append_fewest(std::string_view text, bool continues, std::vector<int32_t>& ids) const;

  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, int32_t> ids_;  // of pieces that are no special tokens
  size_t longest_ = 0;                            // of them, in bytes
  std::string space_;         // what stands for a space before a word: "▁", "Ġ" or " "
  bool words_apart_ = false;  // pieces "##..." continue a word, others begin one
};

}  // namespace rtfx
