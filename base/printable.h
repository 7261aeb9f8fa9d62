// Text that others wrote, made fit for a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rtfx {

/// Returns `text` on one line, without anything that a terminal obeys. Control characters and those
/// that change the direction of text become escapes ("\x1b", "\n", "\u202e"). Bytes that are no
/// UTF-8 become escapes like "\xff". All else stays as it is, backslashes included. Ids, texts,
/// file names and messages come from configurations, journals, models and file systems, so whatever
/// prints them calls this.
std::string printable(std::string_view text);

/// The number of bytes of `text` up to the first that is no UTF-8, or all. Overlong forms and
/// surrogates are none.
size_t valid_utf8(std::string_view text);

/// A word of a command line as a shell takes it, quoted where it must be.
std::string for_shell(const std::string& word);

/// "1 thread", "8 threads".
std::string counted(int64_t number, const std::string& noun);

}  // namespace rtfx
