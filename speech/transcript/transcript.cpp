#include "speech/transcript/transcript.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {
namespace {

/// A range of encoder frames. Its ends may be parts of a frame where words share it.
struct FrameSpan {
  double begin = 0, end = 0;
};

/// The length of the audio in encoder frames. A cache-aware encoder may return frames that begin
/// after its end.
struct AudioFrames {
  double end = std::numeric_limits<double>::infinity();
  double last = end;  // the last frame that lies in the audio for more than milliseconds
};

AudioFrames audio_frames(const TranscriptRules& rules) {
  constexpr double kEnough = 0.05;
  if (rules.audio_seconds <= 0) return {};
  const double end = rules.audio_seconds / rules.frame_seconds;
  return {end, std::max(0.0, std::ceil(end - kEnough) - 1)};
}

FrameSpan span_of_token(const Hypothesis& h, const TokenEvidence& evidence, size_t token,
                        const AudioFrames& audio) {
  int32_t frames = 1;
  if (!h.durations.empty()) frames = h.durations[token];
  if (!evidence.runs.empty()) frames = evidence.runs[token];
  const double begin = std::min<double>(h.frames[token], audio.last);
  return {begin, std::min(begin + std::max(1, frames), audio.end)};
}

/// Finds the start of each word in the tokens of a hypothesis with words. A path passes a word's
/// label with the word's first token at the earliest, and before the next word begins at the latest
/// (FoundWord). Several tokens may therefore be the first one of a word. We choose the starts with
/// which most words are spelled as written and most begin where the tokenizer begins a word.
class WordStarts {
 public:
  WordStarts(const Hypothesis& h, const Tokenizer& tokenizer) : h_(h), tokenizer_(tokenizer) {
    begins_.assign(h.tokens.size() + 1, false);
    for (const TokenWord& word : token_words(tokenizer, h.tokens)) begins_[word.first] = true;
    for (const FoundWord& word : *h.words) {
      const auto behind = std::ranges::upper_bound(h.frames, word.frame);
      behind_.push_back(static_cast<size_t>(behind - h.frames.begin()));
    }
  }

  std::vector<size_t> find() const {
    const size_t words = behind_.size();
    std::vector<std::vector<Choice>> choices(words);
    for (size_t i = 0; i < words; ++i) {
      const size_t low = i == 0 ? 0 : behind_[i - 1];
      const size_t high = i == 0 ? 0 : std::max(low, behind_[i]);
      for (size_t start = low; start <= high; ++start) {
        Choice best{start, 0, i == 0 ? 0 : std::numeric_limits<int>::min()};
        for (size_t c = 0; i > 0 && c < choices[i - 1].size(); ++c) {
          const Choice& before = choices[i - 1][c];
          if (before.start > start) continue;
          const int score = before.score + score_of(i - 1, before.start, start);
          if (score >= best.score) best = {start, c, score};
        }
        choices[i].push_back(best);
      }
    }
    std::vector<size_t> starts(words);
    if (words == 0) return starts;
    const std::vector<Choice>& last = choices.back();
    size_t chosen = 0;
    int most = std::numeric_limits<int>::min();
    for (size_t c = 0; c < last.size(); ++c) {
      const int score = last[c].score + score_of(words - 1, last[c].start, h_.tokens.size());
      if (score >= most) {
        most = score;
        chosen = c;
      }
    }
    for (size_t i = words; i-- > 0; chosen = choices[i][chosen].before)
      starts[i] = choices[i][chosen].start;
    return starts;
  }

 private:
  struct Choice {
    size_t start, before;  // `before` is the choice for the previous word
    int score;
  };

  int score_of(size_t word, size_t start, size_t end) const {
    constexpr int kEmpty = -10, kAfterItsPlace = -2, kSpelled = 3, kBegins = 1;
    if (start >= end) return kEmpty;
    const std::string spelled = tokenizer_.text(std::span(h_.tokens).subspan(start, end - start));
    return (behind_[word] <= start ? kAfterItsPlace : 0) +
           (letters(spelled) == letters((*h_.words)[word].text) ? kSpelled : 0) +
           (begins_[start] ? kBegins : 0);
  }

  /// Removes ASCII marks and turns ASCII capitals into small letters.
  static std::string letters(std::string_view text) {
    std::string kept;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x80 || std::isalnum(byte) != 0) kept += static_cast<char>(std::tolower(byte));
    }
    return kept;
  }

  const Hypothesis& h_;
  const Tokenizer& tokenizer_;
  std::vector<bool> begins_;    // whether the tokenizer begins a word at a token
  std::vector<size_t> behind_;  // number of tokens up to the frame of each word
};

/// Returns the words of a hypothesis with the tokens of each.
std::vector<TokenWord> words_of(const Hypothesis& h, const Tokenizer& tokenizer) {
  if (!h.words) return token_words(tokenizer, h.tokens);
  std::vector<size_t> starts = WordStarts(h, tokenizer).find();
  starts.push_back(h.tokens.size());
  std::vector<TokenWord> words;
  for (size_t i = 0; i < h.words->size(); ++i) {
    const size_t count = starts[i + 1] - starts[i];
    words.push_back({(*h.words)[i].text, starts[i], count, count});
  }
  return words;
}

FrameSpan span_of_word(const Hypothesis& h, const TokenEvidence& evidence, const TokenWord& word,
                       const AudioFrames& audio) {
  FrameSpan span = span_of_token(h, evidence, word.first, audio);
  for (size_t t = word.first + 1; t < word.first + word.spoken; ++t)
    span.end = std::max(span.end, span_of_token(h, evidence, t, audio).end);
  return span;
}

/// Shifts the spans, whose begins are in order, so that they follow each other.
void keep_apart(std::vector<FrameSpan>& spans, const AudioFrames& audio) {
  for (size_t first = 0; first < spans.size();) {
    const double begin = spans[first].begin;
    size_t end = first;
    const double frame_end = std::min(begin + 1, audio.end);
    double last = frame_end;
    for (; end < spans.size() && spans[end].begin == begin; ++end)
      last = std::max(last, spans[end].end);
    if (end < spans.size()) last = std::min(last, spans[end].begin);
    const double part = (frame_end - begin) / static_cast<double>(end - first);
    for (size_t i = first; i < end; ++i) {
      spans[i].begin = begin + part * static_cast<double>(i - first);
      spans[i].end = i + 1 < end ? begin + part * static_cast<double>(i + 1 - first) : last;
    }
    first = end;
  }
}

/// Returns whether a sentence ends with the word, before closing quotes and brackets.
bool ends_sentence(std::string_view word) {
  constexpr std::array<std::string_view, 11> kClosing = {"\"", "'", ")",  "]",  "}", "»",
                                                         "”",  "’", "」", "』", "）"};
  constexpr std::array<std::string_view, 13> kMarks = {".", "?", "!", "…",  "。", "？", "！",
                                                       "؟", "।", "｡", "．", "။",  "។"};
  const auto ends_in = [&](std::string_view mark) { return word.ends_with(mark); };
  for (;;) {
    const auto* const closing = std::ranges::find_if(kClosing, ends_in);
    if (closing == kClosing.end()) return std::ranges::any_of(kMarks, ends_in);
    word.remove_suffix(closing->size());
  }
}

}  // namespace

std::string notice_of(const DecodedAgain& part) {
  const std::string where =
      fmt::format("speech energy without words from {:.1f} s to {:.1f} s", part.start, part.end);
  if (part.decodes == 0) return where;
  if (part.words == 0) return where + ", also when decoded again";
  return fmt::format("{}: decoded again, which gave {} word{}", where, part.words,
                     part.words == 1 ? "" : "s");
}

size_t settled_words(const std::vector<TimedWord>& words, size_t settled, int64_t stable) {
  for (size_t next = settled + 1; next < words.size(); ++next) {
    if (!std::cmp_less(words[next].first_token, stable)) break;
    if (!words[next].joined || ends_sentence(words[next - 1].text)) settled = next;
  }
  return std::min(settled, words.size());
}

std::vector<TimedSegment> segments_of(const std::vector<TimedWord>& words, double pause) {
  std::vector<TimedSegment> segments;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool begins =
        i == 0 || ends_sentence(words[i - 1].text) || words[i].start - words[i - 1].end >= pause;
    if (begins) segments.push_back({i, 0});
    ++segments.back().count;
  }
  return segments;
}

Transcript transcript_of(const Hypothesis& hypothesis, const TokenEvidence& evidence,
                         const Tokenizer& tokenizer, const TranscriptRules& rules) {
  Transcript found;
  found.text = text_of(hypothesis, tokenizer);
  found.score = hypothesis.score;
  const std::vector<double>& confidence = evidence.confidence;
  const AudioFrames audio = audio_frames(rules);
  const auto seconds = [&](double frames) {
    return frames == audio.end ? rules.audio_seconds : frames * rules.frame_seconds;
  };
  for (size_t t = 0; t < hypothesis.tokens.size(); ++t) {
    const FrameSpan span = span_of_token(hypothesis, evidence, t, audio);
    found.tokens.push_back({.id = hypothesis.tokens[t],
                            .piece = tokenizer.piece(hypothesis.tokens[t]),
                            .start = seconds(span.begin),
                            .end = seconds(span.end),
                            .confidence = confidence.empty() ? kNoConfidence : confidence[t]});
  }
  const std::vector<TokenWord> words = words_of(hypothesis, tokenizer);
  std::vector<FrameSpan> spans;
  spans.reserve(words.size());
  for (size_t w = 0; w < words.size(); ++w) {
    if (words[w].count > 0) {
      spans.push_back(span_of_word(hypothesis, evidence, words[w], audio));
    } else {  // a word of the graph without a token
      const double begin = std::min(
          audio.last,
          std::max<double>((*hypothesis.words)[w].frame, spans.empty() ? 0 : spans.back().begin));
      spans.push_back({begin, std::min(begin + 1, audio.end)});
    }
  }
  keep_apart(spans, audio);
  std::vector<double> of_words;
  for (size_t w = 0; w < words.size(); ++w) {
    TimedWord word{.text = words[w].text,
                   .start = seconds(spans[w].begin),
                   .end = seconds(spans[w].end),
                   .first_token = words[w].first,
                   .tokens = words[w].count,
                   .joined = words[w].joined};
    if (!confidence.empty()) {
      word.confidence = aggregate(std::span(confidence).subspan(word.first_token, word.tokens),
                                  rules.aggregation);
      if (word.tokens > 0) of_words.push_back(word.confidence);
    }
    found.words.push_back(std::move(word));
  }
  found.confidence = aggregate(of_words, rules.aggregation);
  found.segments = segments_of(found.words, rules.pause);
  return found;
}

}  // namespace rtfx
