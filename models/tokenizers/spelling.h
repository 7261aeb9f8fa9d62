// Converts text to token ids, finds other spellings of a text, and selects tokens by their
// characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Returns whether a piece has the form `<...>` or `[...]`. Such a piece spells no text.
bool is_special_piece(std::string_view piece);

/// Returns for ids 0 .. vocabulary - 1 whether a text of only `characters` may have the token. An
/// entry is the name of a Unicode script ("latin", "Cyrl"), a range "U+0400-U+04FF" or a single
/// character. Digits, punctuation, symbols and spaces are always allowed. So are marks and modifier
/// letters that belong to no script, special tokens (`<...>`, `[...]`) and pieces of bytes. Throws
/// UserError, with `where`, for any other entry, and where no token with a letter is left.
std::vector<bool> allowed_tokens(const Tokenizer& tokenizer, int64_t vocabulary,
                                 const std::vector<std::string>& characters,
                                 std::string_view where);

/// Returns `text` in lower case, in upper case, and with only the first character of each word in
/// upper case. Unicode's mapping of single characters applies. Results that equal `text` or each
/// other are left out.
std::vector<std::string> other_spellings(const std::string& text);

/// Converts text to token ids, for text that is not a transcript: phrases for contextual biasing.
class Speller {
 public:
  /// The tokenizer must outlive it.
  explicit Speller(const Tokenizer& tokenizer);

  /// Returns ids that spell `text`, up to white space. If the tokenizer has a rule of its own, it
  /// applies. Otherwise the ids are the fewest pieces. Among equally few, those with the longest
  /// first piece win. The result is empty where no ids spell the text, or only with the unknown
  /// piece. White space in `text` must be single spaces between words.
  ///
  /// Three forms of the text are tried: as the tokenizer normalises it, then as it is, then in
  /// Unicode's form NFKC. The first form that has such ids counts.
  std::vector<int32_t> operator()(const std::string& text) const;

 private:
  std::vector<int32_t> spell(const std::string& text) const;
  std::vector<int32_t> fewest(const std::string& text) const;
  bool append_fewest(std::string_view text, bool continues, std::vector<int32_t>& ids) const;

  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, int32_t> ids_;  // only pieces that are no special tokens
  size_t longest_ = 0;                            // length of the longest of these pieces in bytes
  std::string space_;         // how pieces write a space before a word: "▁", "Ġ" or " "
  bool words_apart_ = false;  // pieces "##..." continue a word, others begin one
};

}  // namespace rtfx
