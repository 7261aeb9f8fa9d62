#include "speech/transcript/subtitles.h"

#include <algorithm>

namespace rtfx {
namespace {

constexpr double kLeastSeconds = 0.001;

/// Code points of UTF-8.
size_t characters(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

class Layout {
 public:
  Layout(const std::vector<TimedWord>& words, const SubtitleRules& rules)
      : words_(words), rules_(rules) {}

  /// Lines of words [first, end), as few as hold them.
  std::vector<std::string> lines(size_t first, size_t end) const {
    size_t width = rules_.line_characters;
    const size_t count = filled(first, end, width).size();
    // The narrowest lines that are no more: about equally long ones.
    while (width > 1 && filled(first, end, width - 1).size() == count) --width;
    return filled(first, end, width);
  }

  bool fits(size_t first, size_t end) const {
    return filled(first, end, rules_.line_characters).size() <= rules_.lines &&
           words_[end - 1].end - words_[first].start <= rules_.longest;
  }

 private:
  std::vector<std::string> filled(size_t first, size_t end, size_t width) const {
    std::vector<std::string> lines;
    size_t used = 0;
    for (size_t i = first; i < end; ++i) {
      const size_t length = characters(words_[i].text);
      if (lines.empty() || used + 1 + length > width) {
        lines.push_back(words_[i].text);
        used = length;
      } else {
        lines.back() += " " + words_[i].text;
        used += 1 + length;
      }
    }
    return lines;
  }

  const std::vector<TimedWord>& words_;
  const SubtitleRules& rules_;
};

bool ends_clause(const std::string& word) {
  return word.ends_with(',') || word.ends_with(';') || word.ends_with(':');
}

/// Where the first subtitle of words [first, end) ends.
size_t end_of_first(const std::vector<TimedWord>& words, const Layout& layout, size_t first,
                    size_t end) {
  size_t fitting = first + 1;
  while (fitting < end && layout.fits(first, fitting + 1)) ++fitting;
  if (fitting == end) return end;
  for (size_t i = fitting; i > first + (fitting - first) / 2; --i)
    if (ends_clause(words[i - 1].text)) return i;
  return fitting;
}

}  // namespace

std::vector<Subtitle> subtitles_of(const Transcript& transcript, double audio_seconds,
                                   const SubtitleRules& rules) {
  const std::vector<TimedWord>& words = transcript.words;
  const Layout layout(words, rules);
  std::vector<Subtitle> subtitles;
  for (const TimedSegment& segment : transcript.segments) {
    const size_t end = segment.first + segment.count;
    for (size_t first = segment.first; first < end;) {
      const size_t next = end_of_first(words, layout, first, end);
      subtitles.push_back({words[first].start, words[next - 1].end, layout.lines(first, next)});
      first = next;
    }
  }
  for (size_t i = 0; i < subtitles.size(); ++i) {
    Subtitle& one = subtitles[i];
    double wanted = std::max(one.end, one.start + rules.shortest);
    if (audio_seconds > 0) wanted = std::min(wanted, std::max(audio_seconds, one.end));
    if (i + 1 < subtitles.size()) wanted = std::min(wanted, subtitles[i + 1].start);
    one.end = std::max({one.end, wanted, one.start + kLeastSeconds});
  }
  return subtitles;
}

}  // namespace rtfx
