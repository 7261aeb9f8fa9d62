#include "harness/stream/lost_words.h"

#include <algorithm>
#include <string>
#include <utility>

#include "harness/scoring/wer.h"

namespace rtfx {

namespace {

/// Times are multiples of a frame. Their sums and differences have rounding errors.
constexpr double kTimeRounding = 1e-6;

bool is_at_seam(const TimedWord& word, const std::vector<double>& borders) {
  const double reach = kSeamSeconds + kTimeRounding;
  const auto border = std::ranges::lower_bound(borders, word.start - reach);
  return border != borders.end() && *border <= word.end + reach;
}

std::vector<std::string> spoken_texts(const std::vector<TimedWord>& words) {
  std::vector<std::string> texts;
  texts.reserve(words.size());
  for (const TimedWord& word : words) texts.push_back(word.text);
  return texts;
}

}  // namespace

LostWords& LostWords::operator+=(const LostWords& other) {
  words += other.words;
  at_seams += other.at_seams;
  lost += other.lost;
  lost_at_seams += other.lost_at_seams;
  return *this;
}

std::vector<TimedWord> normalized_words(const std::vector<TimedWord>& words,
                                        const Normalizer& normalizer) {
  std::vector<TimedWord> normalized;
  for (const TimedWord& word : words) {
    for (std::string& text : normalizer.words(word.text))
      normalized.push_back({.text = std::move(text), .start = word.start, .end = word.end});
  }
  return normalized;
}

LostWords count_lost_words(const std::vector<TimedWord>& whole,
                           const std::vector<TimedWord>& streamed,
                           const std::vector<double>& borders) {
  LostWords counts;
  auto word = whole.begin();
  for (const AlignedWords& pair : align_words(spoken_texts(whole), spoken_texts(streamed))) {
    if (!pair.reference) continue;
    const int64_t at_seam = is_at_seam(*word++, borders) ? 1 : 0;
    ++counts.words;
    counts.at_seams += at_seam;
    if (pair.hypothesis) continue;
    ++counts.lost;
    counts.lost_at_seams += at_seam;
  }
  return counts;
}

}  // namespace rtfx
