// NeMo's rule for spaces before punctuation, and the check that it may rely on UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// The characters of `pieces` (UTF-8) that Unicode counts as punctuation (categories P*), sorted.
/// Pieces `[...]` and `<...>` do not count, nor those that begin with `##` or U+2581: a mark that
/// only stands in such pieces keeps the space before it, as in NeMo.
std::u32string punctuation_marks(const std::vector<std::string>& pieces);

/// `text` (UTF-8) without one white-space character before each of `marks` (sorted). Only one: NeMo
/// takes several for an error of the model that should stay visible.
std::string without_space_before(std::string text, std::u32string_view marks);

/// Whether `text` (UTF-8) is punctuation and nothing else; an empty one is not.
bool is_punctuation(std::string_view text);

/// Throws UserError where a piece is not UTF-8 or longer than 1,024 bytes, and where there is none.
void check_pieces(const std::vector<std::string>& pieces, std::string_view where);

}  // namespace rtfx
