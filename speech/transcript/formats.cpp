#include "speech/transcript/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/printable.h"
#include "speech/transcript/subtitles.h"

namespace rtfx {
namespace {

/// "00:01:02,345" with `mark` between seconds and milliseconds.
std::string clock_time(int64_t milliseconds, char mark) {
  const int64_t seconds = milliseconds / 1000;
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60,
                     mark, milliseconds % 1000);
}

int64_t milliseconds_of(double seconds) { return std::llround(seconds * 1000); }

/// Escapes characters that a line must not contain, such as line ends.
std::string one_line(const std::string& text) { return printable(text); }

/// A field between spaces.
std::string one_field(const std::string& text) {
  std::string field = one_line(text);
  std::ranges::replace_if(
      field, [](char c) { return c == ' ' || c == '\t'; }, '_');
  return field;
}

/// The recording's name in CTM and STM, which must be equal in both.
std::string recording_name(const TranscribedFile& file) {
  return one_field(std::filesystem::path(file.file).stem().string());
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
      text += (web ? escaped_cue(one_line(line)) : one_line(line)) + "\n";
  }
  return text;
}

std::string ctm(const TranscribedFile& file) {
  std::string text;
  for (const TimedWord& word : file.transcript.words) {
    const int64_t start = milliseconds_of(word.start);
    const int64_t end = std::max(milliseconds_of(word.end), start);
    text += fmt::format("{} 1 {:.3f} {:.3f} {}", recording_name(file),
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
    text += fmt::format("{0} 1 {0} {1:.3f} {2:.3f} <NA>", recording_name(file),
                        words[segment.first].start, words[segment.first + segment.count - 1].end);
    for (size_t i = segment.first; i < segment.first + segment.count; ++i)
      text += " " + one_field(words[i].text);
    text += "\n";
  }
  return text;
}

std::string tsv(const TranscribedFile& file) {
  std::string text;
  for (const TimedWord& word : file.transcript.words) {
    const std::string confidence =
        std::isnan(word.confidence) ? "" : fmt::format("{:.6f}", word.confidence);
    text += fmt::format("{}\t{:.3f}\t{:.3f}\t{}\t{}\n", one_line(file.file), word.start, word.end,
                        one_line(word.text), confidence);
  }
  return text;
}

}  // namespace

const std::vector<std::string>& transcript_formats() {
  static const std::vector<std::string> names = {"txt", "json", "srt", "vtt", "ctm", "stm", "tsv"};
  return names;
}

TranscriptFormat transcript_format(const std::string& name, const std::string& where) {
  const auto& names = transcript_formats();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw unknown_name(where, "format", name, names);
  return static_cast<TranscriptFormat>(found - names.begin());
}

bool is_concatenable(TranscriptFormat format) {
  return format != TranscriptFormat::srt && format != TranscriptFormat::vtt;
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
  }
  return "";
}

}  // namespace rtfx
