#include "speech/transcript/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "models/tokenizers/pieces.h"

namespace rtfx {

namespace {

/// Returns "00:01:02,345" with `mark` between seconds and milliseconds.
std::string clock_time(int64_t milliseconds, char mark) {
  const int64_t seconds = milliseconds / 1000;
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60,
                     mark, milliseconds % 1000);
}

int64_t milliseconds_of(double seconds) { return std::llround(seconds * 1000); }

/// Escapes characters that a line must not contain, such as line ends.
std::string one_line(const std::string& text) { return printable(text); }

/// Returns the text as a field between spaces.
std::string one_field(const std::string& text) {
  std::string field = text;
  std::ranges::replace_if(
      field, [](char c) { return static_cast<unsigned char>(c) <= ' '; }, '_');
  return one_line(field);
}

/// Returns the recording's name for CTM and STM, which must be equal in both.
std::string recording_name(const TranscribedFile& file) {
  if (!file.recording.empty()) return file.recording;
  return recording_field(std::filesystem::path(file.file).stem().string());
}

std::string escaped_cue(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else
      escaped += c;
  }
  return escaped;
}

/// Shortens each "-->" in a line. SubRip has no escapes, and players take it for the times of a
/// cue.
std::string without_arrows(std::string text) {
  constexpr std::string_view kArrow = "-->";
  for (size_t at = 0; (at = text.find(kArrow)) != text.npos;) text.erase(at, 1);
  return text;
}

std::string subtitle_text(const TranscribedFile& file, bool web) {
  std::string text;
  size_t number = 0;
  for (const Subtitle& subtitle : subtitles_of(file.transcript, file.seconds)) {
    const int64_t start = milliseconds_of(subtitle.start);
    const int64_t end = std::max(milliseconds_of(subtitle.end), start + 1);
    const char mark = web ? '.' : ',';
    ++number;
    text += web ? "\n" : fmt::format("{}{}\n", number == 1 ? "" : "\n", number);
    text += fmt::format("{} --> {}\n", clock_time(start, mark), clock_time(end, mark));
    for (const std::string& line : subtitle.lines)
      text += (web ? escaped_cue(one_line(line)) : without_arrows(one_line(line))) + "\n";
  }
  return text;
}

std::string ctm(const TranscribedFile& file) {
  std::string text;
  for (const TimedWord& word : file.transcript.words) {
    const int64_t start = milliseconds_of(word.start);
    const int64_t end = std::max(milliseconds_of(word.end), start);
    text += fmt::format("{} {} {:.3f} {:.3f} {}", recording_name(file), std::max(1, file.channel),
                        1e-3 * static_cast<double>(start), 1e-3 * static_cast<double>(end - start),
                        one_field(word.text));
    if (!std::isnan(word.confidence))
      text += fmt::format(" {:.6f}", std::clamp(word.confidence, 0.0, 1.0));
    text += "\n";
  }
  return text;
}

std::string stm(const TranscribedFile& file) {
  std::string text;
  for (const TimedSegment& segment : file.transcript.segments) {
    const std::vector<TimedWord>& words = file.transcript.words;
    text += fmt::format("{0} {1} {0} {2:.3f} {3:.3f} <NA>", recording_name(file),
                        std::max(1, file.channel), words[segment.first].start,
                        words[segment.first + segment.count - 1].end);
    for (size_t i = segment.first; i < segment.first + segment.count; ++i)
      text += " " + one_field(words[i].text);
    text += "\n";
  }
  return text;
}

std::string tsv(const TranscribedFile& file) {
  const std::string name = one_line(file.label.empty() ? file.file : file.label);
  std::string text;
  for (const TimedWord& word : file.transcript.words) {
    const std::string confidence =
        std::isnan(word.confidence) ? "" : fmt::format("{:.6f}", word.confidence);
    text += fmt::format("{}\t{:.3f}\t{:.3f}\t{}\t{}\n", name, word.start, word.end,
                        one_line(word.text), confidence);
  }
  return text;
}

/// A part of a tier of a TextGrid.
struct Interval {
  double start = 0, end = 0;  // seconds
  std::string text;
};

/// Fills a tier from 0 to `seconds` without gaps or overlaps. Intervals with the same start share
/// the time up to the last one's end in equal parts. Each interval ends where the next begins, and
/// gaps have no text. `intervals` are in order of their starts.
std::vector<Interval> whole_tier(const std::vector<Interval>& intervals, double seconds) {
  std::vector<Interval> tier;
  double done = 0;
  const auto add = [&](double start, double end, const std::string& text) {
    if (end <= start) return;
    tier.push_back({start, end, text});
    done = end;
  };
  for (size_t first = 0; first < intervals.size();) {
    const double start = std::max(done, intervals[first].start);
    double end = start;
    size_t behind = first;
    for (; behind < intervals.size() && intervals[behind].start <= start; ++behind)
      end = std::max(end, intervals[behind].end);
    if (behind < intervals.size()) end = std::min(end, intervals[behind].start);
    add(done, start, "");
    const double part = (end - start) / static_cast<double>(behind - first);
    for (size_t i = first; i < behind; ++i) {
      const bool is_last = i + 1 == behind;
      add(start + part * static_cast<double>(i - first),
          is_last ? end : start + part * static_cast<double>(i + 1 - first), intervals[i].text);
    }
    first = behind;
  }
  add(done, seconds, "");
  return tier;
}

/// Returns a string of a TextGrid, in which quotes are doubled.
std::string grid_string(const std::string& text) {
  std::string result = "\"";
  for (const char c : one_line(text)) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

/// Writes Praat's long text form, as in its manual, "TextGrid file formats".
std::string textgrid(const TranscribedFile& file) {
  std::vector<std::pair<std::string, std::vector<Interval>>> tiers(1);
  tiers[0].first = "words";
  for (const TimedWord& word : file.transcript.words)
    tiers[0].second.push_back({word.start, word.end, word.text});
  if (file.with_tokens) {
    auto& [name, intervals] = tiers.emplace_back("tokens", std::vector<Interval>());
    for (const TimedToken& token : file.transcript.tokens)
      intervals.push_back({token.start, token.end, token.piece});
  }
  double seconds = file.seconds;
  for (const auto& [name, intervals] : tiers)
    for (const Interval& one : intervals) seconds = std::max(seconds, one.end);
  std::string text = fmt::format(
      "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = {:.6f}\n"
      "tiers? <exists>\nsize = {}\nitem []:\n",
      seconds, tiers.size());
  for (size_t i = 0; i < tiers.size(); ++i) {
    const std::vector<Interval> tier = whole_tier(tiers[i].second, seconds);
    text += fmt::format(
        "    item [{}]:\n        class = \"IntervalTier\"\n        name = \"{}\"\n"
        "        xmin = 0\n        xmax = {:.6f}\n        intervals: size = {}\n",
        i + 1, tiers[i].first, seconds, tier.size());
    for (size_t k = 0; k < tier.size(); ++k) {
      text += fmt::format(
          "        intervals [{}]:\n            xmin = {:.6f}\n            xmax = {:.6f}\n"
          "            text = {}\n",
          k + 1, tier[k].start, tier[k].end, grid_string(tier[k].text));
    }
  }
  return text;
}

}  // namespace

std::string recording_field(const std::string& name) {
  std::string field = one_field(name);
  if (field.starts_with(";;")) field.replace(0, 2, "__");
  return field;
}

const std::vector<std::string>& transcript_formats() {
  static const std::vector<std::string> names = {"txt", "json", "srt", "vtt",
                                                 "ctm", "stm",  "tsv", "textgrid"};
  return names;
}

TranscriptFormat transcript_format(const std::string& name, const std::string& where) {
  const auto& names = transcript_formats();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw unknown_name(where, "format", name, names);
  return static_cast<TranscriptFormat>(found - names.begin());
}

std::string file_ending(TranscriptFormat format) {
  if (format == TranscriptFormat::textgrid) return "TextGrid";  // as Praat and aligners expect
  return transcript_formats()[static_cast<size_t>(format)];
}

bool is_concatenable(TranscriptFormat format) {
  return format != TranscriptFormat::srt && format != TranscriptFormat::vtt &&
         format != TranscriptFormat::textgrid;
}

std::string format_head(TranscriptFormat format) {
  if (format == TranscriptFormat::vtt) return "WEBVTT\n";
  if (format == TranscriptFormat::tsv) return "file\tstart\tend\tword\tconfidence\n";
  return "";
}

std::string formatted(const TranscribedFile& file, TranscriptFormat format) {
  switch (format) {
    case TranscriptFormat::txt:
      return one_line(file.transcript.text) + "\n";
    case TranscriptFormat::json:
      return transcript_json(file) + "\n";
    case TranscriptFormat::srt:
      return subtitle_text(file, /*web=*/false);
    case TranscriptFormat::vtt:
      return subtitle_text(file, /*web=*/true);
    case TranscriptFormat::ctm:
      return ctm(file);
    case TranscriptFormat::stm:
      return stm(file);
    case TranscriptFormat::tsv:
      return tsv(file);
    case TranscriptFormat::textgrid:
      return textgrid(file);
  }
  return "";
}

namespace {

constexpr double kLeastSeconds = 0.001;

/// Counts the code points of UTF-8 text.
size_t characters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) next_code_point(text, at);
  return count;
}

class Layout {
 public:
  Layout(const std::vector<TimedWord>& words, const SubtitleRules& rules)
      : words_(words), rules_(rules) {}

  /// Returns the smallest number of lines that hold the words [first, end).
  std::vector<std::string> lines(size_t first, size_t end) const {
    size_t width = rules_.line_characters;
    const size_t count = filled(first, end, width).size();
    // The narrowest width that needs no further line makes the lines about equally long.
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
      const size_t length = characters(words_[i].text), space = words_[i].joined ? 0 : 1;
      if (lines.empty() || used + space + length > width) {
        lines.push_back(words_[i].text);
        used = length;
      } else {
        lines.back() += std::string(space, ' ') + words_[i].text;
        used += space + length;
      }
    }
    return lines;
  }

  const std::vector<TimedWord>& words_;
  const SubtitleRules& rules_;
};

bool ends_clause(const std::string& word) {
  constexpr std::array<std::string_view, 8> kMarks = {",", ";", ":", "，", "、", "；", "：", "،"};
  return std::ranges::any_of(kMarks, [&](std::string_view mark) { return word.ends_with(mark); });
}

/// Returns the words of a segment. A word that is longer than a line is divided, with equal times
/// for equal lengths.
std::vector<TimedWord> words_of_lines(const Transcript& transcript, const TimedSegment& segment,
                                      const SubtitleRules& rules) {
  std::vector<TimedWord> words;
  for (size_t i = segment.first; i < segment.first + segment.count; ++i) {
    const TimedWord& word = transcript.words[i];
    const size_t length = characters(word.text);
    if (length <= rules.line_characters) {
      words.push_back(word);
      continue;
    }
    const double seconds = (word.end - word.start) / static_cast<double>(length);
    size_t done = 0;
    for (const std::string& part : parts_of(word.text, rules.line_characters)) {
      TimedWord& one = words.emplace_back(word);
      one.text = part;
      one.joined = word.joined || done > 0;
      one.start = word.start + seconds * static_cast<double>(done);
      done += characters(part);
      one.end = word.start + seconds * static_cast<double>(done);
    }
  }
  return words;
}

/// Returns the end of the first subtitle of words [first, end).
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
  std::vector<Subtitle> subtitles;
  for (const TimedSegment& segment : transcript.segments) {
    const std::vector<TimedWord> words = words_of_lines(transcript, segment, rules);
    const Layout layout(words, rules);
    const size_t end = words.size();
    for (size_t first = 0; first < end;) {
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
    one.end = std::min(one.end, one.start + rules.longest);
    // A part of a divided word may be shorter than kLeastSeconds.
    if (i + 1 < subtitles.size())
      subtitles[i + 1].start = std::max(subtitles[i + 1].start, one.end);
  }
  return subtitles;
}

namespace {

using nlohmann::ordered_json;

/// Rounds seconds to milliseconds.
double to_the_millisecond(double seconds) { return std::round(seconds * 1000) / 1000; }

void add_confidence(ordered_json& object, double confidence) {
  if (!std::isnan(confidence)) object["confidence"] = std::round(confidence * 1e6) / 1e6;
}

ordered_json span_json(double start, double end) {
  return {{"start", to_the_millisecond(start)}, {"end", to_the_millisecond(end)}};
}

ordered_json words_json(const Transcript& transcript) {
  ordered_json list = ordered_json::array();
  for (const TimedWord& word : transcript.words) {
    ordered_json object = {{"text", word.text}};
    object.update(span_json(word.start, word.end));
    add_confidence(object, word.confidence);
    list.push_back(std::move(object));
  }
  return list;
}

ordered_json segments_json(const Transcript& transcript) {
  ordered_json list = ordered_json::array();
  for (const TimedSegment& segment : transcript.segments) {
    const TimedWord* const first = &transcript.words[segment.first];
    std::string text;
    for (const TimedWord* word = first; word != first + segment.count; ++word)
      text += (word == first || word->joined ? "" : " ") + word->text;
    ordered_json object = {{"text", text}};
    object.update(span_json(first->start, first[segment.count - 1].end));
    list.push_back(std::move(object));
  }
  return list;
}

ordered_json tokens_json(const Transcript& transcript) {
  ordered_json list = ordered_json::array();
  for (const TimedToken& token : transcript.tokens) {
    ordered_json object = {{"id", token.id}, {"piece", token.piece}};
    object.update(span_json(token.start, token.end));
    add_confidence(object, token.confidence);
    list.push_back(std::move(object));
  }
  return list;
}

/// Adds the members that the best result and each alternative have.
void add_transcript(ordered_json& object, const Transcript& transcript, bool with_tokens) {
  object["text"] = transcript.text;
  object["score"] = transcript.score;
  add_confidence(object, transcript.confidence);
  object["words"] = words_json(transcript);
  if (with_tokens) object["tokens"] = tokens_json(transcript);
}

void add_alternatives(ordered_json& object, const std::vector<Transcript>& alternatives,
                      bool with_tokens) {
  for (const Transcript& alternative : alternatives) {
    ordered_json entry;
    add_transcript(entry, alternative, with_tokens);
    object["alternatives"].push_back(std::move(entry));
  }
}

}  // namespace

nlohmann::ordered_json to_json(const std::vector<DecodedAgain>& parts) {
  ordered_json list = ordered_json::array();
  for (const DecodedAgain& part : parts) {
    ordered_json object = span_json(part.start, part.end);
    object["words"] = part.words;
    object["decodes"] = part.decodes;
    list.push_back(std::move(object));
  }
  return list;
}

std::string transcript_json(const TranscribedFile& file) {
  ordered_json object = {{"schema", "rtfx.transcript/1"},
                         {"file", file.file},
                         {"seconds", to_the_millisecond(file.seconds)}};
  if (!file.id.empty()) object["id"] = file.id;
  if (file.channel > 0) object["channel"] = file.channel;
  if (file.has_reference) object["reference"] = file.reference;
  add_transcript(object, file.transcript, file.with_tokens);
  object["segments"] = segments_json(file.transcript);
  add_alternatives(object, file.transcript.alternatives, file.with_tokens);
  for (const TranscriptSection& section : file.transcript.sections) {
    ordered_json entry = span_json(section.start, section.end);
    add_alternatives(entry, section.alternatives, file.with_tokens);
    object["sections"].push_back(std::move(entry));
  }
  if (!file.transcript.decoded_again.empty())
    object["decoded_again"] = to_json(file.transcript.decoded_again);
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

nlohmann::json to_json(const Hypothesis& hypothesis, const Tokenizer& tokenizer) {
  nlohmann::json object = {{"text", text_of(hypothesis, tokenizer)},
                           {"tokens", hypothesis.tokens},
                           {"frames", hypothesis.frames},
                           {"score", hypothesis.score}};
  if (!hypothesis.durations.empty()) object["durations"] = hypothesis.durations;
  if (hypothesis.words) {
    nlohmann::json& words = object["words"] = nlohmann::json::array();
    nlohmann::json& frames = object["word_frames"] = nlohmann::json::array();
    for (const FoundWord& word : *hypothesis.words) {
      words.push_back(word.text);
      frames.push_back(word.frame);
    }
  }
  for (const Hypothesis& entry : hypothesis.nbest)
    object["nbest"].push_back(to_json(entry, tokenizer));
  return object;
}

}  // namespace rtfx
