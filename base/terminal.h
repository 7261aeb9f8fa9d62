// The terminal: its width, text that fits into it, messages and errors.
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

/// Returns the columns of the terminal that standard output is. Returns nullopt where standard
/// output is a file or a pipe, whose lines other programs search.
std::optional<size_t> terminal_columns();

/// Returns whether text on standard output may have colours: on a terminal, unless NO_COLOR is set.
bool use_colours();

/// Returns the columns for running text: those of the terminal, but at most 100. It is 100 without
/// a terminal.
size_t text_columns();

/// Returns the columns that UTF-8 text takes on a terminal. A wide character, such as an ideograph,
/// takes two, and a combining mark none. A broken sequence of UTF-8 counts as one.
size_t width_of(std::string_view text);

/// Returns the end of a text that is wider than `most` columns, with "…" before it. Both together
/// take at most `most` columns. Returns other texts unchanged. `most` is at least 1.
std::string shortened(std::string_view text, size_t most);

/// Returns `text` with line breaks in place of blanks, so that no line is longer than `columns`.
/// Only a word that is longer itself makes a longer line. Every line but the first begins with
/// `indent` blanks. Line ends of the text stay.
std::string wrapped(std::string_view text, size_t columns, size_t indent = 0);

/// Prints a line to standard output. On a terminal, the line is wrapped at the terminal's width.
void print_wrapped(const std::string& text, size_t indent = 0);

/// Writes everything that was printed to standard output so far. Throws std::system_error if that
/// fails, as fmt::print() does.
void flush_output();

/// Writes to standard error. A message that cannot be written is lost without an exception, for
/// example on a full disk or a closed terminal: a run is worth more than its messages.
void write_message(std::string_view text);

/// Formats a message and writes it by write_message().
template <class... Values>
void print_message(fmt::format_string<Values...> format, Values&&... values) {
  write_message(fmt::format(format, std::forward<Values>(values)...));
}

/// Calls `print`, which prints to standard output, for a caller whose exit code is a verdict. If
/// SIGPIPE is ignored and the reader of the output closes it, as `head` does, `print` ends early
/// and the caller goes on. Other errors, such as a full disk, are thrown.
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
