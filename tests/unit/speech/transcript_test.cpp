// Tests words with times: frames, durations and runs become seconds.
#include "speech/transcript/transcript.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/tokenizers/nemo_tokenizers.h"
#include "models/tokenizers/pieces.h"

namespace rtfx {
namespace {

using Times = std::vector<std::pair<double, double>>;

/// Tokens: 0 "a", 1 " ", 2 ".", 3 "b".
std::shared_ptr<const Tokenizer> letters() { return character_tokenizer({"a", " ", ".", "b"}); }

Hypothesis hypothesis(std::vector<int32_t> tokens, std::vector<int32_t> frames,
                      std::vector<int32_t> durations = {}) {
  Hypothesis h;
  h.tokens = std::move(tokens);
  h.frames = std::move(frames);
  h.durations = std::move(durations);
  return h;
}

constexpr TranscriptRules rules_of(double audio_seconds) {
  return {.frame_seconds = 0.5, .audio_seconds = audio_seconds, .pause = 1, .aggregation = "min"};
}

/// Adds words that a search found, each at a frame.
Hypothesis with_words(Hypothesis h, std::vector<FoundWord> words) {
  h.words = std::move(words);
  return h;
}

Times times_of(const Transcript& transcript) {
  Times times;
  for (const TimedWord& word : transcript.words) times.emplace_back(word.start, word.end);
  return times;
}

Times times_of(const Hypothesis& h, double audio_seconds = 0, const TokenEvidence& evidence = {}) {
  return times_of(transcript_of(h, evidence, *letters(), rules_of(audio_seconds)));
}

TEST(Transcript, OfNothing) {
  const Transcript t = transcript_of({}, {}, *letters(), rules_of(1));
  EXPECT_EQ(t.text, "");
  EXPECT_TRUE(t.words.empty() && t.tokens.empty() && t.segments.empty());
  EXPECT_TRUE(std::isnan(t.confidence));
}

TEST(Transcript, TokensLastAFrameTheirDurationOrTheirRun) {
  EXPECT_EQ(times_of(hypothesis({0, 0}, {2, 5})), (Times{{1, 3}}));
  EXPECT_EQ(times_of(hypothesis({0, 0}, {2, 5}, {3, 4})), (Times{{1, 4.5}}));
  EXPECT_EQ(times_of(hypothesis({0}, {2}, {0})), (Times{{1, 1.5}}));
  EXPECT_EQ(times_of(hypothesis({0, 0}, {2, 5}), 0, {.runs = {1, 3}, .confidence = {}}),
            (Times{{1, 4}}));
}

TEST(Transcript, WordsEndWhereTheNextBegins) {
  EXPECT_EQ(times_of(hypothesis({0, 1, 0}, {0, 1, 2}, {4, 0, 1})), (Times{{0, 1}, {1, 1.5}}));
}

TEST(Transcript, WordsOfOneFrameShareIt) {
  const Times times = times_of(hypothesis({0, 1, 0, 1, 0, 1, 0}, {2, 2, 2, 2, 2, 3, 9}));
  ASSERT_EQ(times.size(), 4U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(times[i].first, 1 + 0.5 / 3 * static_cast<double>(i), 1e-12);
    EXPECT_NEAR(times[i].second, 1 + 0.5 / 3 * static_cast<double>(i + 1), 1e-12);
  }
}

TEST(Transcript, NothingEndsBehindTheAudio) {
  EXPECT_EQ(times_of(hypothesis({0}, {2}, {4}), 1.25), (Times{{1, 1.25}}));
}

/// Tokens may be at an encoder's last frames, which begin behind the end of the audio.
TEST(Transcript, WordsBehindTheAudioShareItsLastFrame) {
  EXPECT_EQ(times_of(hypothesis({0, 1, 0}, {1, 8, 9}), 1.25), (Times{{0.5, 1}, {1, 1.25}}));
  EXPECT_EQ(times_of(hypothesis({0, 1, 0, 1, 0}, {2, 2, 3, 3, 9}, {1, 0, 1, 0, 1}), 1.5),
            (Times{{1, 1 + 0.5 / 3}, {1 + 0.5 / 3, 1 + 2 * (0.5 / 3)}, {1 + 2 * (0.5 / 3), 1.5}}));
  // Less than a twentieth of the third frame lies within the audio.
  EXPECT_EQ(times_of(hypothesis({0}, {2}), 1.02), (Times{{0.5, 1}}));
  EXPECT_EQ(times_of(with_words(hypothesis({0}, {1}), {{"a", 1}, {"</s>", 9}}), 1),
            (Times{{0.5, 0.75}, {0.75, 1}}));
  for (const double seconds : {0.01, 0.5, 1.0, 1.3, 2.0}) {
    const Hypothesis h = hypothesis({0, 1, 3, 1, 0}, {0, 1, 2, 3, 4});
    const Transcript t = transcript_of(h, {}, *letters(), rules_of(seconds));
    for (const TimedWord& word : t.words) EXPECT_LT(word.start, word.end) << seconds;
    for (const TimedToken& token : t.tokens) EXPECT_LT(token.start, token.end) << seconds;
    EXPECT_LE(t.words.back().end, seconds);
  }
}

TEST(Transcript, PunctuationDoesNotLengthenAWord) {
  const Transcript t =
      transcript_of(hypothesis({0, 2, 1, 3}, {2, 9, 11, 12}), {}, *letters(), rules_of(0));
  ASSERT_EQ(t.words.size(), 2U);
  EXPECT_EQ(t.words[0].text, "a.");
  EXPECT_EQ(times_of(t), (Times{{1, 1.5}, {6, 6.5}}));
}

TEST(Transcript, ConfidencesAreAggregated) {
  const TokenEvidence evidence{.runs = {}, .confidence = {0.5, 0.25, 1, 0.75}};
  const auto of = [&](const char* aggregation) {
    TranscriptRules rules = rules_of(0);
    rules.aggregation = aggregation;
    const Transcript t =
        transcript_of(hypothesis({0, 3, 1, 3}, {0, 1, 2, 3}), evidence, *letters(), rules);
    return std::vector{t.words[0].confidence, t.words[1].confidence, t.confidence};
  };
  EXPECT_EQ(of("min"), (std::vector{0.25, 0.75, 0.25}));
  EXPECT_EQ(of("max"), (std::vector{0.5, 0.75, 0.75}));
  EXPECT_EQ(of("mean"), (std::vector{0.375, 0.75, 0.5625}));
  EXPECT_EQ(of("prod"), (std::vector{0.125, 0.75, 0.09375}));
  // A word of a graph that takes no token does not count in the utterance's confidence.
  const Hypothesis h = with_words(hypothesis({0}, {4}), {{"<s>", 2}, {"a", 4}});
  const Transcript t = transcript_of(h, {.runs = {}, .confidence = {0.5}}, *letters(), rules_of(0));
  EXPECT_TRUE(std::isnan(t.words[0].confidence));
  EXPECT_EQ(t.confidence, 0.5);
}

TEST(Transcript, HasTheWordsThatTheSearchFound) {
  // The word "A.B." has the tokens "ab", and "aba" has the others. The search gives a word the
  // frame of its first token, or a later one.
  const Hypothesis spelled = hypothesis({0, 3, 0, 3, 0}, {0, 2, 4, 6, 8});
  const auto words_at = [&](int32_t first, int32_t second) {
    const Hypothesis h = with_words(spelled, {{"A.B.", first}, {"aba", second}});
    const Transcript t = transcript_of(h, {}, *letters(), rules_of(0));
    EXPECT_EQ(t.text, "A.B. aba");
    EXPECT_EQ(t.words.at(0).text + "|" + t.words.at(1).text, "A.B.|aba");
    return times_of(t);
  };
  const Times expected = {{0, 1.5}, {2, 4.5}};
  EXPECT_EQ(words_at(0, 4), expected);
  EXPECT_EQ(words_at(2, 8), expected);
  EXPECT_EQ(words_at(3, 6), expected);
}

TEST(Transcript, WordsThatSoundOtherwiseLastFromTheirTokenOn) {
  const Hypothesis h = with_words(hypothesis({0, 1, 3, 3, 1, 0}, {0, 1, 2, 4, 5, 6}),
                                  {{"one", 0}, {"two", 2}, {"three", 6}});
  const TokenEvidence evidence{.runs = {}, .confidence = {1, 1, 0.5, 0.25, 1, 0.75}};
  const Transcript t = transcript_of(h, evidence, *letters(), rules_of(0));
  EXPECT_EQ(t.text, "one two three");
  EXPECT_EQ(times_of(t), (Times{{0, 1}, {1, 3}, {3, 3.5}}));
  EXPECT_EQ(t.words[1].confidence, 0.25);
  EXPECT_EQ(t.words[2].confidence, 0.75);
}

TEST(Transcript, AWordWithoutTokensStandsAtItsFrame) {
  const Hypothesis h = with_words(hypothesis({0}, {4}), {{"<s>", 2}, {"a", 4}});
  EXPECT_EQ(times_of(h), (Times{{1, 1.5}, {2, 2.5}}));
  EXPECT_EQ(transcript_of(with_words(hypothesis({0}, {4}), {}), {}, *letters(), rules_of(0)).text,
            "");
}

/// Returns the words of each line of a stream that brings one character at a time. A line has the
/// words that settle, and the last one has the others. No line may take back a word of an earlier
/// one.
std::vector<std::string> settled_lines(const std::string& text) {
  const std::vector<std::string> pieces = parts_of(text, 1);
  const std::shared_ptr<const Tokenizer> tokenizer = character_tokenizer(pieces);
  std::vector<std::string> lines;
  std::vector<TimedWord> words;
  size_t settled = 0;
  const auto take = [&](size_t end) {
    if (end > settled) lines.emplace_back();
    for (; settled < end; ++settled)
      lines.back() += (words[settled].joined || settled == 0 ? "" : " ") + words[settled].text;
  };
  Hypothesis h;
  for (size_t i = 0; i < pieces.size(); ++i) {
    h.tokens.push_back(static_cast<int32_t>(i));
    h.frames.push_back(static_cast<int32_t>(3 * i));
    words = transcript_of(h, {}, *tokenizer, rules_of(0)).words;
    take(settled_words(words, settled, static_cast<int64_t>(i + 1)));
  }
  take(words.size());
  return lines;
}

TEST(Transcript, WordsSettleWhereNoTokenCanChangeThem) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(settled_lines("ab c d"), (Lines{"ab", " c", " d"}));
  // ICU divides these texts anew with each character, at times into fewer words.
  for (const char* text : {"我去加拿大", "我吃巧克力", "乌鲁木齐", "ありがとうございました"})
    EXPECT_EQ(settled_lines(text), Lines{text});
  EXPECT_EQ(settled_lines("我去。加拿大 乌鲁木齐"), (Lines{"我去。", "加拿大", " 乌鲁木齐"}));
}

TEST(Transcript, WordsSettleOnceTheNextOneIsSure) {
  const std::vector<TimedWord> words = {{.text = "a", .first_token = 0, .tokens = 2},
                                        {.text = "b", .first_token = 2, .tokens = 1},
                                        {.text = "c", .first_token = 3, .tokens = 1}};
  EXPECT_EQ(settled_words(words, 0, 2), 0U);
  EXPECT_EQ(settled_words(words, 0, 3), 1U);
  EXPECT_EQ(settled_words(words, 1, 3), 1U);
  EXPECT_EQ(settled_words(words, 1, 4), 2U);
  EXPECT_EQ(settled_words(words, 4, 4), 3U) << "no more than there are";
}

TEST(Transcript, SegmentsEndWithSentencesAndPauses) {
  const auto counts = [](const std::vector<TimedWord>& words) {
    std::vector<size_t> found;
    for (const TimedSegment& segment : segments_of(words, 1)) found.push_back(segment.count);
    return found;
  };
  const auto word = [](std::string text, double start, double end) {
    return TimedWord{.text = std::move(text), .start = start, .end = end};
  };
  using Counts = std::vector<size_t>;
  EXPECT_EQ(counts({}), Counts{});
  EXPECT_EQ(counts({word("a", 0, 1), word("b", 1.9, 2), word("c", 3, 4)}), (Counts{2, 1}));
  EXPECT_EQ(counts({word("a.", 0, 1), word("b", 1, 2), word("c?”", 2, 3), word("d", 3, 4)}),
            (Counts{1, 2, 1}));
  EXPECT_EQ(counts({word("1.5", 0, 1), word("b", 1, 2)}), (Counts{2}));
}

}  // namespace
}  // namespace rtfx
