// Numbers as Whisper's English normaliser writes them: "twenty one dollars and five cents" becomes
// "$21.05".
#pragma once

#include <string>
#include <string_view>

namespace rtfx {

/// `text`: lower case, decomposed, without symbols other than .%$¢€£. Words of numbers become
/// digits, currencies their sign in front, "percent" a % behind; "one" alone stays a word. White
/// space becomes single spaces. Numbers may have any length.
std::u32string whisper_numbers(std::u32string_view text);

}  // namespace rtfx
