// Decides which lines tell the reader of `rtfx stream --json` how a live text changes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "speech/transcript/transcript.h"

namespace rtfx {

struct LiveLine {
  bool final = false;         // its words stay
  double start = 0, end = 0;  // seconds
  std::string text;           // empty: the words of the line before are withdrawn

  bool operator==(const LiveLine&) const = default;
};

/// The lines of one stream. A line replaces the last line that is not final.
class LiveLines {
 public:
  /// Takes the text of an utterance so far, where rules end utterances. Returns whether it needs a
  /// line. It does if it has changed, and also at the end of an utterance that has or had words.
  bool take_utterance(const std::string& text, bool ended);

  /// Takes the words of a stream so far, where no rule ends utterances. The first `settled` words
  /// can no longer change. Returns a final line with the newly settled words and a line with the
  /// words behind them, where they need one.
  std::vector<LiveLine> take_words(const std::vector<TimedWord>& words, size_t settled);

  /// Returns how many words have a final line.
  size_t settled() const { return settled_; }

 private:
  std::string shown_;  // text of the last line that is not final, unless a final one came later
  size_t settled_ = 0;
};

}  // namespace rtfx
