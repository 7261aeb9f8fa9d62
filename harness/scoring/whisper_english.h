// The English normaliser that was published with Whisper (Radford et al. 2022, appendix C) and that
// the rules of the Open ASR Leaderboard come from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// The words of what the Python package whisper-normalizer 0.1.15 makes of the text. Drops what
/// stands in brackets and hesitations (uh, um, mm, hmm, mhm, mmm), writes contractions and titles
/// out, numbers as digits, British spellings as American ones; drops marks and symbols.
std::vector<std::string> whisper_english(std::string_view utf8_text);

}  // namespace rtfx
