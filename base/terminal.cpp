#include "base/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unicode/uchar.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/printable.h"
#include "base/utf8.h"

namespace rtfx {

std::optional<size_t> terminal_columns() {
  winsize size{};
  const bool known = isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known && size.ws_col > 0 ? std::optional<size_t>(size.ws_col) : std::nullopt;
}

bool use_colours() { return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

size_t text_columns() {
  constexpr size_t kMost = 100;
  return std::min(kMost, terminal_columns().value_or(kMost));
}

namespace {

/// Returns the columns of the character at `at`, and moves `at` behind it.
size_t next_width(std::string_view text, size_t& at) {
  const int32_t code = next_code_point(text, at);
  if (code >= 0 && (U_GET_GC_MASK(code) & (U_GC_MN_MASK | U_GC_ME_MASK)) != 0) return 0;
  const int kind = code < 0 ? U_EA_NEUTRAL : u_getIntPropertyValue(code, UCHAR_EAST_ASIAN_WIDTH);
  return kind == U_EA_WIDE || kind == U_EA_FULLWIDTH ? 2 : 1;
}

}  // namespace

size_t width_of(std::string_view text) {
  size_t width = 0;
  for (size_t at = 0; at < text.size();) width += next_width(text, at);
  return width;
}

std::string shortened(std::string_view text, size_t most) {
  size_t width = width_of(text);
  if (width <= most) return std::string(text);
  size_t begin = 0;
  while (width + 1 > most) width -= next_width(text, begin);  // "…" takes a column
  // A mark must not go to the "…" when the character before it is cut off.
  for (size_t next = begin; next < text.size() && next_width(text, next) == 0;) begin = next;
  return "…" + std::string(text.substr(begin));
}

std::string wrapped(std::string_view text, size_t columns, size_t indent) {
  std::string out;
  size_t column = 0;  // column of the next character
  while (!text.empty()) {
    if (text.front() == '\n') {
      out += '\n' + std::string(indent, ' ');
      column = indent;
      text.remove_prefix(1);
      continue;
    }
    const size_t word = std::min(text.find_first_not_of(' '), text.size());  // behind the blanks
    const size_t end = std::min(text.find_first_of(" \n", word), text.size());
    const std::string_view blanks = text.substr(0, word), letters = text.substr(word, end - word);
    const size_t width = blanks.size() + width_of(letters);
    if (column > indent && column + width > columns && !letters.empty()) {
      out += '\n' + std::string(indent, ' ');
      column = indent + width_of(letters);
    } else {
      out += blanks;
      column += width;
    }
    out += letters;
    text.remove_prefix(end);
  }
  return out;
}

void print_wrapped(const std::string& text, size_t indent) {
  fmt::print("{}\n", wrapped(text, terminal_columns().value_or(text.size()), indent));
}

void flush_output() {
  if (std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot flush standard output");
}

void write_message(std::string_view text) {
  [[maybe_unused]] const size_t written = std::fwrite(text.data(), 1, text.size(), stderr);
}

void print_error(const UserError& error) {
  ErrorList all;
  all.add(error);
  for (const UserError& one : all.all()) print_message("rtfx: error: {}\n", printable(one.what()));
}

}  // namespace rtfx
