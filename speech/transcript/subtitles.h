// Cuts words into subtitles and lines. The rules are those of broadcasting and the web (EBU R 37,
// Netflix's timed text style guide): two lines of 42 characters, shown for 5/6 s to 7 s.
#pragma once

#include <string>
#include <vector>

#include "speech/transcript/transcript.h"

namespace rtfx {

struct SubtitleRules {
  size_t line_characters = 42;  // code points
  size_t lines = 2;
  double longest = 7;         // seconds
  double shortest = 5.0 / 6;  // where the next one leaves room
};

struct Subtitle {
  double start = 0, end = 0;  // seconds; end > start
  std::vector<std::string> lines;
};

/// In order and without overlap. A segment is divided where it does not fit, behind a comma, a
/// semicolon or a colon in its second half if there is one, else behind the last word that fits;
/// two lines are about equally long. A word that is longer than a line has one of its own.
/// `audio_seconds`: none stays on for longer; 0: not known.
std::vector<Subtitle> subtitles_of(const Transcript& transcript, double audio_seconds,
                                   const SubtitleRules& rules = {});

}  // namespace rtfx
