#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace rtfx {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: not valid UTF-8
};

Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t bytes = byte(0) < 0x80             ? 1
                       : (byte(0) & 0xE0) == 0xC0 ? 2
                       : (byte(0) & 0xF0) == 0xE0 ? 3
                       : (byte(0) & 0xF8) == 0xF0 ? 4
                                                  : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  if (bytes == 1) return {byte(0), 1};
  uint32_t code = byte(0) & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kLeast[bytes] || code > 0x10FFFF || surrogate ? Character{}
                                                              : Character{code, bytes};
}

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
    const Character c = first_character(text);
    const size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    if (c.bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_obeyed(c.code)) {
      out += escape_of(c.code);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

size_t valid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Character c = first_character(text.substr(at));
    if (c.bytes == 0) break;
    at += c.bytes;
  }
  return at;
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
