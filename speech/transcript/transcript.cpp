#include "speech/transcript/transcript.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {
namespace {

/// Encoder frames, parts of one where words share it.
struct FrameSpan {
  double begin = 0, end = 0;
};

FrameSpan span_of_token(const Hypothesis& h, const TokenEvidence& evidence, size_t token) {
  int32_t frames = 1;
  if (!h.durations.empty()) frames = h.durations[token];
  if (!evidence.runs.empty()) frames = evidence.runs[token];
  return {static_cast<double>(h.frames[token]),
          static_cast<double>(h.frames[token] + std::max(1, frames))};
}

FrameSpan span_of_word(const Hypothesis& h, const TokenEvidence& evidence, const TokenWord& word) {
  FrameSpan span = span_of_token(h, evidence, word.first);
  for (size_t t = word.first + 1; t < word.first + word.spoken; ++t)
    span.end = std::max(span.end, span_of_token(h, evidence, t).end);
  return span;
}

/// Makes spans whose begins are in order follow each other.
void keep_apart(std::vector<FrameSpan>& spans) {
  for (size_t first = 0; first < spans.size();) {
    const double begin = spans[first].begin;
    size_t end = first;
    double last = begin + 1;
    for (; end < spans.size() && spans[end].begin == begin; ++end)
      last = std::max(last, spans[end].end);
    if (end < spans.size()) last = std::min(last, spans[end].begin);
    const double part = 1.0 / static_cast<double>(end - first);
    for (size_t i = first; i < end; ++i) {
      spans[i].begin = begin + part * static_cast<double>(i - first);
      spans[i].end = i + 1 < end ? begin + part * static_cast<double>(i + 1 - first) : last;
    }
    first = end;
  }
}

double clipped_seconds(double frames, const TranscriptRules& rules) {
  const double seconds = frames * rules.frame_seconds;
  return rules.audio_seconds > 0 ? std::min(seconds, rules.audio_seconds) : seconds;
}

/// Whether a sentence ends with the word, closing quotes and brackets aside.
bool ends_sentence(std::string_view word) {
  constexpr std::array<std::string_view, 11> kClosing = {"\"", "'", ")",  "]",  "}", "»",
                                                         "”",  "’", "」", "』", "）"};
  constexpr std::array<std::string_view, 9> kMarks = {".",  "?",  "!", "…", "。",
                                                      "？", "！", "؟", "।"};
  const auto ends_in = [&](std::string_view mark) { return word.ends_with(mark); };
  for (;;) {
    const auto* const closing = std::ranges::find_if(kClosing, ends_in);
    if (closing == kClosing.end()) return std::ranges::any_of(kMarks, ends_in);
    word.remove_suffix(closing->size());
  }
}

}  // namespace

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
  found.text = tokenizer.text(hypothesis.tokens);
  found.score = hypothesis.score;
  const std::vector<double>& confidence = evidence.confidence;
  for (size_t t = 0; t < hypothesis.tokens.size(); ++t) {
    const FrameSpan span = span_of_token(hypothesis, evidence, t);
    found.tokens.push_back({.id = hypothesis.tokens[t],
                            .piece = tokenizer.piece(hypothesis.tokens[t]),
                            .start = clipped_seconds(span.begin, rules),
                            .end = clipped_seconds(span.end, rules),
                            .confidence = confidence.empty() ? kNoConfidence : confidence[t]});
  }
  const std::vector<TokenWord> words = token_words(tokenizer, hypothesis.tokens);
  std::vector<FrameSpan> spans;
  spans.reserve(words.size());
  for (const TokenWord& word : words) spans.push_back(span_of_word(hypothesis, evidence, word));
  keep_apart(spans);
  std::vector<double> of_words;
  for (size_t w = 0; w < words.size(); ++w) {
    TimedWord word{.text = words[w].text,
                   .start = clipped_seconds(spans[w].begin, rules),
                   .end = clipped_seconds(spans[w].end, rules),
                   .first_token = words[w].first,
                   .tokens = words[w].count};
    if (!confidence.empty()) {
      word.confidence = aggregate(std::span(confidence).subspan(word.first_token, word.tokens),
                                  rules.aggregation);
      of_words.push_back(word.confidence);
    }
    found.words.push_back(std::move(word));
  }
  found.confidence = aggregate(of_words, rules.aggregation);
  found.segments = segments_of(found.words, rules.pause);
  return found;
}

}  // namespace rtfx
