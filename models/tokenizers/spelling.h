// Spelling: text to token ids, other spellings of a text, and tokens by their characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// `<...>` or `[...]`: a piece that spells no text.
bool is_special_piece(std::string_view piece);

/// Tells for ids 0 .. vocabulary - 1 whether a text of `characters` alone may have the token. An
/// entry is the name of a Unicode script ("latin", "Cyrl"), a range "U+0400-U+04FF" or a single
/// character. Digits, punctuation, symbols and spaces are always allowed. So are marks and modifier
/// letters that belong to no script, special tokens (`<...>`, `[...]`) and pieces of bytes. Throws
/// UserError, with `where`, for any other entry, and where no token with a letter is left.
std::vector<bool> allowed_tokens(const Tokenizer& tokenizer, int64_t vocabulary,
                                 const std::vector<std::string>& characters,
                                 std::string_view where);

/// `text` in lower case, in upper case, and with each word's first character alone in upper case,
/// as Unicode maps single characters; without those that are `text`, or one another.
std::vector<std::string> other_spellings(const std::string& text);

/// Turns text into token ids, for words that are not a transcript: phrases to be boosted.
class Speller {
 public:
  /// The tokenizer must outlive it.
  explicit Speller(const Tokenizer& tokenizer);

  /// Ids that read `text`, white space aside: by the tokenizer's own rule where it has one, else
  /// the fewest pieces, of which the longer one comes first. Empty where no ids read it, or only
  /// with the unknown piece. White space in `text` is single spaces between words. The text is
  /// taken as the tokenizer normalises it, else as it is, else in Unicode's form NFKC: whichever is
  /// the first with such ids.
  std::vector<int32_t> operator()(const std::string& text) const;

 private:
  std::vector<int32_t> spell(const std::string& text) const;
  std::vector<int32_t> fewest(const std::string& text) const;
  bool append_fewest(std::string_view text, bool continues, std::vector<int32_t>& ids) const;

  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, int32_t> ids_;  // of pieces that are no special tokens
  size_t longest_ = 0;                            // of them, in bytes
  std::string space_;         // what stands for a space before a word: "▁", "Ġ" or " "
  bool words_apart_ = false;  // pieces "##..." continue a word, others begin one
};

}  // namespace rtfx
