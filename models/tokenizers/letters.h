// Tokens and texts by the characters that they are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// `<...>` or `[...]`: a piece that spells no text.
bool is_special_piece(std::string_view piece);

/// Tells for ids 0 .. vocabulary - 1 whether a text of `characters` alone may have the token. An
/// entry is the name of a Unicode script ("latin", "Cyrl"), a range "U+0400-U+04FF" or a single
/// character. Digits, punctuation, symbols and spaces are always allowed, and so are special tokens
/// (`<...>`,
/// `[...]`) and pieces of bytes. Throws UserError, with `where`, for any other entry, and where no
/// token with a letter is left.
std::vector<bool> allowed_tokens(const Tokenizer& tokenizer, int64_t vocabulary,
                                 const std::vector<std::string>& characters,
                                 std::string_view where);

/// `text` in lower case, in upper case, and with each word's first character alone in upper case,
/// as Unicode maps single characters; without those that are `text`, or one another.
std::vector<std::string> other_spellings(const std::string& text);

}  // namespace rtfx
