#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/utf8.h"

namespace rtfx {
namespace {

bool is_obeyed(uint32_t code) {
  const auto within = [code](uint32_t low, uint32_t high) { return code >= low && code <= high; };
  return code < 0x20 || within(0x7F, 0x9F) ||                 // control characters
         within(0x2028, 0x2029) ||                            // ends of lines and paragraphs
         within(0x202A, 0x202E) || within(0x2066, 0x2069) ||  // direction
         within(0xFFFE, 0xFFFF);                              // XML 1.0 has neither of them
}

std::string escape_of(uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t bytes = 0;
    const int32_t code = next_code_point(text, bytes);
    if (code < 0) {
      bytes = 1;
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_obeyed(static_cast<uint32_t>(code))) {
      out += escape_of(static_cast<uint32_t>(code));
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string for_shell(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "_-./=:@%+,") == std::string::npos)
    return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return printable(text + "'");
}

std::string counted(int64_t number, const std::string& noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace rtfx
