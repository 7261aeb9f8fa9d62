#include "harness/cli/live_lines.h"

#include <algorithm>
#include <utility>

namespace rtfx {
namespace {

/// Returns the line of words [begin, end). A line without words stands at the end of the words
/// before it.
LiveLine line_of(const std::vector<TimedWord>& words, bool final, size_t begin, size_t end) {
  LiveLine line{.final = final, .text = {}};
  end = std::min(end, words.size());
  if (begin >= end) {
    const size_t before = std::min(begin, words.size());
    line.start = line.end = before == 0 ? 0 : words[before - 1].end;
    return line;
  }
  line.start = words[begin].start;
  line.end = words[end - 1].end;
  for (size_t i = begin; i < end; ++i)
    line.text += (line.text.empty() || words[i].joined ? "" : " ") + words[i].text;
  return line;
}

}  // namespace

bool LiveLines::take_utterance(const std::string& text, bool ended) {
  const std::string before = std::exchange(shown_, ended ? std::string() : text);
  return ended ? !text.empty() || !before.empty() : text != before;
}

std::vector<LiveLine> LiveLines::take_words(const std::vector<TimedWord>& words, size_t settled) {
  std::vector<LiveLine> lines;
  if (LiveLine line = line_of(words, /*final=*/true, settled_, settled); !line.text.empty()) {
    lines.push_back(std::move(line));
    shown_.clear();
  }
  settled_ = settled;
  LiveLine line = line_of(words, /*final=*/false, settled, words.size());
  if (line.text == shown_) return lines;
  shown_ = line.text;
  lines.push_back(std::move(line));
  return lines;
}

}  // namespace rtfx
