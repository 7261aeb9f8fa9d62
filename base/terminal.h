// The width of a terminal, text that fits in it, and errors.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace rtfx {

/// Columns of the terminal that standard output is; none where it is a file or a pipe, whose lines
/// other programs search.
std::optional<size_t> terminal_columns();

/// Whether what is printed to standard output may have colours: on a terminal without NO_COLOR.
bool use_colours();

/// Columns for running text: those of the terminal, and 100 at most or where there is none.
size_t text_columns();

/// Characters of UTF-8.
size_t characters(std::string_view text);

/// The end of a text of more than `most` characters, behind "…", which is one of them; else `text`.
/// `most` is at least 1.
std::string shortened(std::string_view text, size_t most);

/// `text` with line breaks in place of blanks, so that no line is longer than `columns`, apart from
/// words that are. Every line but the first begins with `indent` blanks. Line ends of the text
/// stay.
std::string wrapped(std::string_view text, size_t columns, size_t indent = 0);

/// Prints a line to standard output, wrapped where a terminal is narrower.
void print_wrapped(const std::string& text, size_t indent = 0);

/// Prints the error to standard error, or each of UserErrors on a line of its own.
void print_error(const UserError& error);

}  // namespace rtfx
