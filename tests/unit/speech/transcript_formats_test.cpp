// Tests transcripts in each format, and how subtitles are divided.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "speech/transcript/formats.h"

namespace rtfx {
namespace {

struct Said {
  std::string text;
  double start, end;
  double confidence = kNoConfidence;
};

Transcript transcript(const std::vector<Said>& words, double pause = 1) {
  Transcript t;
  for (const Said& word : words) {
    t.text += (t.text.empty() ? "" : " ") + word.text;
    t.words.push_back(
        {.text = word.text, .start = word.start, .end = word.end, .confidence = word.confidence});
  }
  t.segments = segments_of(t.words, pause);
  return t;
}

std::string text_of(const std::vector<Said>& words, TranscriptFormat format,
                    double audio_seconds = 0) {
  return format_head(format) + formatted({.file = "a b/c d.wav",
                                          .recording = "",
                                          .channel = 0,
                                          .seconds = audio_seconds,
                                          .transcript = transcript(words),
                                          .reference = "",
                                          .has_reference = false,
                                          .with_tokens = false},
                                         format);
}

const std::vector<Said> kTwo = {{"go", 0.04, 0.0806, 0.5}, {"<b>", 3661.9996, 3662.5, 0.25}};

TEST(TranscriptFormats, OfTwoWords) {
  EXPECT_EQ(text_of(kTwo, TranscriptFormat::txt), "go <b>\n");
  EXPECT_EQ(text_of(kTwo, TranscriptFormat::srt),
            "1\n00:00:00,040 --> 00:00:00,873\ngo\n\n"
            "2\n01:01:02,000 --> 01:01:02,833\n<b>\n");
  EXPECT_EQ(text_of(kTwo, TranscriptFormat::vtt),
            "WEBVTT\n\n00:00:00.040 --> 00:00:00.873\ngo\n\n"
            "01:01:02.000 --> 01:01:02.833\n&lt;b&gt;\n");
  EXPECT_EQ(text_of(kTwo, TranscriptFormat::ctm),
            "c_d 1 0.040 0.041 go 0.500000\nc_d 1 3662.000 0.500 <b> 0.250000\n");
  EXPECT_EQ(text_of(kTwo, TranscriptFormat::stm),
            "c_d 1 c_d 0.040 0.081 <NA> go\nc_d 1 c_d 3662.000 3662.500 <NA> <b>\n");
  EXPECT_EQ(text_of(kTwo, TranscriptFormat::tsv),
            "file\tstart\tend\tword\tconfidence\n"
            "a b/c d.wav\t0.040\t0.081\tgo\t0.500000\n"
            "a b/c d.wav\t3662.000\t3662.500\t<b>\t0.250000\n");
}

TEST(TranscriptFormats, TextGridsHaveNoGapsAndNoOverlaps) {
  EXPECT_EQ(text_of({{"a \"b\"", 0.5, 1}, {"c", 1, 1.25}}, TranscriptFormat::textgrid, 2),
            R"(File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 2.000000
tiers? <exists>
size = 1
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        xmin = 0
        xmax = 2.000000
        intervals: size = 4
        intervals [1]:
            xmin = 0.000000
            xmax = 0.500000
            text = ""
        intervals [2]:
            xmin = 0.500000
            xmax = 1.000000
            text = "a ""b"""
        intervals [3]:
            xmin = 1.000000
            xmax = 1.250000
            text = "c"
        intervals [4]:
            xmin = 1.250000
            xmax = 2.000000
            text = ""
)");
  // Tokens of one frame share it. A token that lasts beyond the start of the next one ends there.
  Transcript spoken;
  for (const auto& [start, end] :
       std::vector<std::pair<double, double>>{{0, 0.08}, {0, 0.08}, {0.08, 0.4}, {0.16, 0.24}})
    spoken.tokens.push_back({.id = 0, .piece = "x", .start = start, .end = end});
  TranscribedFile file;
  file.transcript = spoken;
  file.with_tokens = true;
  const std::string text = formatted(file, TranscriptFormat::textgrid);
  for (const char* bounds : {"xmin = 0.000000\n            xmax = 0.040000",
                             "xmin = 0.040000\n            xmax = 0.080000",
                             "xmin = 0.080000\n            xmax = 0.160000",
                             "xmin = 0.160000\n            xmax = 0.240000"})
    EXPECT_NE(text.find(bounds), std::string::npos) << bounds << "\n" << text;
}

TEST(TranscriptFormats, OfNothing) {
  EXPECT_EQ(text_of({}, TranscriptFormat::txt), "\n");
  EXPECT_EQ(text_of({}, TranscriptFormat::srt), "");
  EXPECT_EQ(text_of({}, TranscriptFormat::vtt), "WEBVTT\n");
  EXPECT_EQ(text_of({}, TranscriptFormat::ctm), "");
  EXPECT_EQ(text_of({}, TranscriptFormat::stm), "");
  const auto json = nlohmann::json::parse(text_of({}, TranscriptFormat::json));
  EXPECT_EQ(json["words"], nlohmann::json::array());
  EXPECT_EQ(json["segments"], nlohmann::json::array());
  EXPECT_FALSE(json.contains("confidence") || json.contains("alternatives") || json.contains("id"));
}

TEST(TranscriptFormats, ConfidencesAreLeftOutWithoutAny) {
  const std::vector<Said> words = {{"go", 0, 1}};
  EXPECT_EQ(text_of(words, TranscriptFormat::ctm), "c_d 1 0.000 1.000 go\n");
  EXPECT_EQ(text_of(words, TranscriptFormat::tsv),
            "file\tstart\tend\tword\tconfidence\na b/c d.wav\t0.000\t1.000\tgo\t\n");
}

TEST(TranscriptFormats, Json) {
  TranscribedFile file{.file = "a.wav",
                       .id = "first",
                       .recording = "",
                       .seconds = 2.00049,
                       .transcript = transcript(kTwo),
                       .reference = "go",
                       .has_reference = true,
                       .with_tokens = true};
  file.transcript.confidence = 0.25;
  file.transcript.tokens.push_back(
      {.id = 7, .piece = "▁go", .start = 0.04, .end = 0.08, .confidence = 0.5});
  file.transcript.alternatives = {transcript(kTwo), transcript({})};
  const auto json = nlohmann::json::parse(transcript_json(file));
  EXPECT_EQ(json["schema"], "rtfx.transcript/1");
  EXPECT_EQ(json["id"], "first");
  EXPECT_EQ(json["seconds"], 2);
  EXPECT_EQ(json["reference"], "go");
  EXPECT_EQ(
      json["words"][1],
      (nlohmann::json{{"text", "<b>"}, {"start", 3662}, {"end", 3662.5}, {"confidence", 0.25}}));
  EXPECT_EQ(json["tokens"][0]["piece"], "▁go");
  EXPECT_EQ(json["segments"].size(), 2U);
  EXPECT_EQ(json["alternatives"].size(), 2U);
  EXPECT_EQ(json["alternatives"][0]["text"], "go <b>");
}

TEST(TranscriptFormats, LinesStayLines) {
  const std::vector<Said> words = {{"a\nb\tc", 0, 1}};
  for (const auto format : {TranscriptFormat::txt, TranscriptFormat::ctm, TranscriptFormat::stm})
    EXPECT_EQ(std::ranges::count(text_of(words, format), '\n'), 1);
  const std::string ctm = text_of(words, TranscriptFormat::ctm);
  EXPECT_EQ(ctm, "c_d 1 0.000 1.000 a_b_c\n");
  EXPECT_EQ(recording_field("a\tb c\nd\xff"), "a_b_c_d\\xff");
}

TEST(TranscriptFormats, NoTextLooksLikeTheTimesOfACue) {
  const std::vector<Said> words = {{"a-->b", 0, 1}, {"---->", 1, 2}};
  EXPECT_EQ(text_of(words, TranscriptFormat::srt), "1\n00:00:00,000 --> 00:00:02,000\na->b ->\n");
  EXPECT_EQ(text_of(words, TranscriptFormat::vtt),
            "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\na--&gt;b ----&gt;\n");
}

TEST(TranscriptFormats, AreKnownByName) {
  EXPECT_EQ(transcript_format("vtt", "--format"), TranscriptFormat::vtt);
  EXPECT_THROW(transcript_format("vt", "--format"), UserError);
}

TEST(Subtitles, KeepTheRules) {
  std::vector<Said> words;
  for (int i = 0; i < 400; ++i) {
    const double start = 0.3 * i;
    const std::string text(static_cast<size_t>(1 + i * 7 % 13), 'x');
    words.push_back({i % 9 == 4 ? text + "," : text, start, start + 0.2});
  }
  const Transcript t = transcript(words);
  const auto subtitles = subtitles_of(t, words.back().end);
  std::string text;
  for (size_t i = 0; i < subtitles.size(); ++i) {
    const Subtitle& one = subtitles[i];
    EXPECT_LE(one.lines.size(), 2U);
    for (const std::string& line : one.lines) {
      EXPECT_LE(line.size(), 42U);
      text += (text.empty() ? "" : " ") + line;
    }
    EXPECT_GT(one.end, one.start);
    EXPECT_LE(one.end - one.start, 7);
    EXPECT_GE(one.start, i > 0 ? subtitles[i - 1].end : 0);
  }
  EXPECT_EQ(text, t.text);
  EXPECT_LE(subtitles.back().end, words.back().end);
}

TEST(Subtitles, LinesAreAboutEquallyLong) {
  std::vector<Said> words;
  for (int i = 0; i < 10; ++i) words.push_back({"12345", 0.1 * i, 0.1 * i + 0.1});
  const auto subtitles = subtitles_of(transcript(words), 0);
  ASSERT_EQ(subtitles.size(), 1U);
  EXPECT_EQ(subtitles[0].lines, (std::vector<std::string>{"12345 12345 12345 12345 12345",
                                                          "12345 12345 12345 12345 12345"}));
}

TEST(Subtitles, OfALongWordAndCharactersOfSeveralBytes) {
  const std::string long_word(60, 'x');
  std::string greek;
  for (int i = 0; i < 42; ++i) greek += "λ";
  const auto subtitles =
      subtitles_of(transcript({{"a", 0, 1}, {long_word, 1, 2}, {greek, 2, 3}}), 0);
  ASSERT_EQ(subtitles.size(), 2U);
  EXPECT_EQ(subtitles[0].lines, (std::vector<std::string>{"a", long_word.substr(0, 42)}));
  EXPECT_EQ(subtitles[1].lines, (std::vector<std::string>{long_word.substr(42), greek}));
  EXPECT_DOUBLE_EQ(subtitles[1].start, 1.7);  // 42 of 60 letters behind 1 s
}

TEST(Subtitles, ATailOfAMomentDoesNotOverlapTheNext) {
  const std::string line(42, 'x');
  const auto subtitles =
      subtitles_of(transcript({{line, 0, 1}, {line + ".", 1, 1.01}, {"b", 1.01, 2}}), 0);
  ASSERT_EQ(subtitles.size(), 3U);
  EXPECT_EQ(subtitles[1].lines, std::vector<std::string>{"."});
  EXPECT_GT(subtitles[1].end, subtitles[1].start);
  EXPECT_GE(subtitles[2].start, subtitles[1].end);
}

TEST(Subtitles, OfTextWithoutSpacesKeepTheRules) {
  Transcript t;
  std::string text;
  for (int i = 0; i < 211; ++i) {
    const std::string word = i % 50 == 49 ? "了。" : i % 7 == 6 ? "好，" : "我们";
    text += word;
    t.words.push_back({.text = word, .start = 0.05 * i, .end = 0.05 * i + 0.05, .joined = i > 0});
  }
  t.segments = segments_of(t.words, 1);
  EXPECT_EQ(t.segments.size(), 5U);  // four full stops
  std::string shown;
  for (const Subtitle& one : subtitles_of(t, 0)) {
    EXPECT_LE(one.lines.size(), 2U);
    EXPECT_LE(one.end - one.start, 7);
    for (const std::string& line : one.lines) {
      EXPECT_LE(line.size(), 3U * 42);
      EXPECT_FALSE(line.starts_with("。"));
      shown += line;
    }
  }
  EXPECT_EQ(shown, text);
}

TEST(Subtitles, OfALongSoundStayForSevenSeconds) {
  const auto subtitles = subtitles_of(transcript({{"ah", 1, 20}}), 0);
  ASSERT_EQ(subtitles.size(), 1U);
  EXPECT_EQ(subtitles[0].end, 8);
}

TEST(Subtitles, StayOnForAWhileWhereThereIsRoom) {
  const auto ends = [](double audio_seconds) {
    std::vector<double> found;
    for (const Subtitle& one :
         subtitles_of(transcript({{"a.", 0, 0.1}, {"b.", 0.5, 0.6}, {"c", 2, 2.1}}), audio_seconds))
      found.push_back(one.end);
    return found;
  };
  EXPECT_EQ(ends(0), (std::vector{0.5, 0.5 + 5.0 / 6, 2 + 5.0 / 6}));
  EXPECT_EQ(ends(2.3).back(), 2.3);
}

}  // namespace
}  // namespace rtfx
