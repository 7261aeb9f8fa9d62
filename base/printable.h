// Functions that make foreign text safe to print on a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rtfx {

/// Returns `text` on one line, without anything that a terminal obeys. Control characters, line
/// ends and characters that change the direction of text become escapes ("\x1b", "\n", "\u202e").
/// Bytes that are not UTF-8 become escapes like "\xff". All else stays as it is, backslashes
/// included. Ids, texts, file names and messages come from configurations, journals, models and
/// file systems, so all code that prints them calls this.
std::string printable(std::string_view text);

/// Returns a word of a command line as a shell takes it, quoted where it must be.
std::string for_shell(const std::string& word);

/// Returns number and noun, for example "1 thread" or "8 threads".
std::string counted(int64_t number, const std::string& noun);

}  // namespace rtfx
