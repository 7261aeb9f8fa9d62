// The pieces of a vocabulary: their limits, and NeMo's rule for spaces before punctuation.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace rtfx {

/// The largest file in bytes. The objects that are built from it may take 30 times as much.
constexpr size_t kMostTokenizerBytes = size_t{32} << 20;
/// The largest vocabulary. Speech models have at most 16,384 pieces.
constexpr size_t kMostPieces = size_t{1} << 20;

/// Throws UserError where the bytes of the file `where` are too many.
inline void check_size(std::string_view bytes, std::string_view where) {
  if (bytes.size() <= kMostTokenizerBytes) return;
  throw UserError(where, fmt::format("{} bytes are too many for a tokenizer", bytes.size()),
                  "give the tokenizer of a speech model");
}

/// Throws UserError where the pieces of the file `where` are too many.
inline void check_count(size_t pieces, std::string_view where) {
  if (pieces <= kMostPieces) return;
  throw UserError(where, fmt::format("{} pieces are too many for a tokenizer", pieces),
                  "give the tokenizer of a speech model");
}

/// Returns the characters of `pieces` (UTF-8) that Unicode counts as punctuation (categories P*),
/// sorted. Pieces `[...]` and `<...>` do not count, nor those that begin with `##` or U+2581. A
/// mark that only occurs in such pieces keeps the space before it, as in NeMo.
std::u32string punctuation_marks(const std::vector<std::string>& pieces);

/// Removes one white-space character before each of `marks` (sorted) from `text` (UTF-8). It
/// removes only one: NeMo takes several for an error of the model that should stay visible.
std::string without_space_before(std::string text, std::u32string_view marks);

/// Returns whether `text` (UTF-8) is punctuation and nothing else. An empty text is not.
bool is_punctuation(std::string_view text);

/// The forms into which vocabularies bring text before they look up its pieces.
enum class TextForm {
  as_is,
  nfkc,      // Unicode's compatibility composition: ﬁ -> fi, a fullwidth letter -> its plain one
  nmt_nfkc,  // SentencePiece's default: NFKC, no control characters, all kinds of space -> space
  nfkc_cf,   // NFKC and each character in folded case: ẞ -> ß, which stays one character
  nmt_nfkc_cf,
};

/// Returns `text` (UTF-8) in that form. Each white-space character becomes one space.
std::string text_in_form(std::string_view text, TextForm form);

/// Returns whether a character is of a script without spaces between words, such as Han, kana and
/// Thai.
bool is_unspaced(char32_t character);

/// A word of a text without spaces between words. It is the bytes [begin, end). Those from `spoken`
/// on are the punctuation at its end.
struct TextWord {
  size_t begin = 0, end = 0, spoken = 0;
};

/// Returns the words of `text` (UTF-8) by the rules and dictionaries of Unicode (UAX 29, ICU).
/// Returns none unless a character of `text` is_unspaced(). Punctuation belongs to the word before
/// it. Opening brackets and quotes belong to the word after them.
std::vector<TextWord> words_without_spaces(std::string_view text);

/// Divides `text` (UTF-8) into parts of at most `most` code points. It divides only between
/// grapheme clusters, which readers see as characters. A longer cluster is a part of its own.
std::vector<std::string> parts_of(std::string_view text, size_t most);

/// Throws UserError for a piece that is not UTF-8 or is longer than 1,024 bytes, and where there is
/// no piece.
void check_pieces(const std::vector<std::string>& pieces, std::string_view where);

}  // namespace rtfx
