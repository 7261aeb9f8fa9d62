// Transcripts in other people's formats. docs/reference/transcripts.md describes each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithms/hypotheses.h"
#include "models/tokenizers/tokenizer.h"
#include "speech/transcript/transcript.h"

namespace rtfx {

enum class TranscriptFormat { txt, json, srt, vtt, ctm, stm, tsv, textgrid };

/// Names as the command line knows them.
const std::vector<std::string>& transcript_formats();
/// Throws UserError for another name; `where` names the option.
TranscriptFormat transcript_format(const std::string& name, const std::string& where);

/// The ending of a file of the format, without the dot.
std::string file_ending(TranscriptFormat format);

/// Whether several transcripts one after the other are a file of the format.
bool is_concatenable(TranscriptFormat format);

/// A recording's name as CTM and STM can hold it: without blanks, and no comment (";;").
std::string recording_field(const std::string& name);

struct TranscribedFile {
  std::string file;       // as it was named
  std::string id = {};    // of a manifest's utterance; empty where there is none
  std::string recording;  // its recording_field() in CTM and STM; empty: the file's name alone
  int channel = 0;        // that was transcribed, from 1 on; 0: the mix of all
  double seconds = 0;     // of audio
  Transcript transcript;
  std::string reference;  // of a manifest; empty where there is none
  bool has_reference = false;
  bool with_tokens = false;  // JSON, TextGrid: the tokens too
};

/// The head of a file, in front of all transcripts.
std::string format_head(TranscriptFormat format);

/// `file` in the format, with the end of its last line; empty for CTM, STM and TSV without words.
std::string formatted(const TranscribedFile& file, TranscriptFormat format);

/// One line of JSON, without its end: schema "rtfx.transcript/1".
std::string transcript_json(const TranscribedFile& file);

/// Rules of broadcasting and the web (EBU R 37, Netflix's timed text style guide): two lines of 42
/// characters, shown for 5/6 s to 7 s.
struct SubtitleRules {
  size_t line_characters = 42;  // code points
  size_t lines = 2;
  double longest = 7;         // seconds
  double shortest = 5.0 / 6;  // where the next one leaves room
};

struct Subtitle {
  double start = 0, end = 0;  // seconds; end > start
  std::vector<std::string> lines;
};

/// Subtitles are in order and do not overlap. A segment is divided where it does not fit. The first
/// part ends behind a comma, a semicolon or a colon in the second half of the words that fit, else
/// behind the last of these. Two lines are about equally long. A word that is longer than a line is
/// divided. `audio_seconds`: none stays on for longer; 0: not known.
std::vector<Subtitle> subtitles_of(const Transcript& transcript, double audio_seconds,
                                   const SubtitleRules& rules = {});

/// [{"start", "end", "words", "decodes"}, ...], times in seconds.
nlohmann::ordered_json to_json(const std::vector<DecodedAgain>& parts);

/// A hypothesis as `rtfx transcribe --json` prints it and hypotheses/ holds it: {"text", "tokens",
/// "frames", "score"}. It also has "durations" for TDT, "words" and "word_frames" of a search with
/// a word table, and "nbest", a list of the same, where the hypothesis has one.
nlohmann::json to_json(const Hypothesis& hypothesis, const Tokenizer& tokenizer);

}  // namespace rtfx
