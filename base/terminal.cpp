#include "base/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/printable.h"

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

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, begins_character));
}

std::string shortened(std::string_view text, size_t most) {
  if (characters(text) <= most) return std::string(text);
  size_t begin = text.size();
  for (size_t left = most - 1; left > 0;)
    if (begins_character(text[--begin])) --left;
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
    const size_t width = blanks.size() + characters(letters);
    if (column > indent && column + width > columns && !letters.empty()) {
      out += '\n' + std::string(indent, ' ');
      column = indent + characters(letters);
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
