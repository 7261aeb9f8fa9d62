// The width of a terminal, text that fits in it, messages and errors.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

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

/// Writes to standard error. A message that cannot be written is lost and nothing is thrown, since
/// a run is worth more than its messages. A disk may be full, and a terminal may have gone.
void write_message(std::string_view text);

/// write_message() of a format and its values.
template <class... Values>
void print_message(fmt::format_string<Values...> format, Values&&... values) {
  write_message(fmt::format(format, std::forward<Values>(values)...));
}

/// Does `print`, which prints to standard output, for a caller whose exit code is a verdict. Where
/// SIGPIPE is ignored and the reader of the output leaves, as `head` does, it ends early and the
/// caller goes on. Other errors, such as that of a full disk, are thrown.
template <class Print>
void print_while_read(const Print& print) {
  try {
    print();
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::broken_pipe) throw;
  }
}

/// Prints the error to standard error, or each of UserErrors on a line of its own.
void print_error(const UserError& error);

}  // namespace rtfx
