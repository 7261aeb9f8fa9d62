// Writes transcripts in established formats. docs/reference/transcripts.md describes each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithms/hypotheses.h"
#include "models/tokenizers/tokenizer.h"
#include "speech/transcript/transcript.h"

namespace rtfx {

enum class TranscriptFormat { txt, json, srt, vtt, ctm, stm, tsv, textgrid };

/// Returns the names that the command line uses.
const std::vector<std::string>& transcript_formats();
/// Returns the format of that name. Throws UserError for another name; `where` names the option.
TranscriptFormat transcript_format(const std::string& name, const std::string& where);

/// Returns the ending of a file of the format, without the dot.
std::string file_ending(TranscriptFormat format);

/// Returns whether several transcripts, one after the other, are a valid file of the format.
bool is_concatenable(TranscriptFormat format);

/// Returns a name in the form that CTM, STM and Kaldi's archives allow: without blanks, and
/// not a comment (";;"). ASCII white space and control characters become "_".
std::string recording_field(const std::string& name);

struct TranscribedFile {
  std::string file;        // name that the user gave
  std::string id = {};     // id of a manifest's utterance, or empty
  std::string label = {};  // name in TSV, which has no column for the channel; empty = `file`
  std::string recording;   // recording_field() in CTM and STM; empty = the file name alone
  int channel = 0;         // transcribed channel, from 1 on; 0 = the mix of all
  double seconds = 0;      // length of the audio
  Transcript transcript;
  std::string reference;  // reference text of a manifest, or empty
  bool has_reference = false;
  bool with_tokens = false;  // JSON, TextGrid: write the tokens too
};

/// Returns the head of a file, which precedes all transcripts.
std::string format_head(TranscriptFormat format);

/// Returns `file` in the format, with the end of its last line. The text is empty for CTM, STM and
/// TSV without words.
std::string formatted(const TranscribedFile& file, TranscriptFormat format);

/// Returns one line of JSON, without its end: schema "rtfx.transcript/1".
std::string transcript_json(const TranscribedFile& file);

/// Rules of Netflix's timed text style guide: two lines of 42 characters, shown for 5/6 s to 7 s.
struct SubtitleRules {
  size_t line_characters = 42;  // code points
  size_t lines = 2;
  double longest = 7;         // seconds
  double shortest = 5.0 / 6;  // seconds, where the next subtitle leaves room
};

struct Subtitle {
  double start = 0, end = 0;  // seconds; end > start
  std::vector<std::string> lines;
};

/// Returns subtitles, which are in order and do not overlap. A segment that does not fit is
/// divided. Its first part ends after a comma, a semicolon or a colon in the second half of the
/// words that fit. Without such a mark, it ends after the last word that fits. Two lines have about
/// the same length. A word that is longer than a line is divided. A subtitle that is shown for
/// longer than its words still ends by `audio_seconds`, the end of the audio; 0 means that it is
/// not known.
std::vector<Subtitle> subtitles_of(const Transcript& transcript, double audio_seconds,
                                   const SubtitleRules& rules = {});

/// Returns [{"start", "end", "words", "decodes"}, ...], with times in seconds.
nlohmann::ordered_json to_json(const std::vector<DecodedAgain>& parts);

/// Returns a hypothesis in the form of `rtfx transcribe --json` and of the files in hypotheses/:
/// {"text", "tokens", "frames", "score"}. For TDT it also has "durations". A search with a word
/// table adds "words" and "word_frames". "nbest" is a list of such objects, where the hypothesis
/// has a list.
nlohmann::json to_json(const Hypothesis& hypothesis, const Tokenizer& tokenizer);

}  // namespace rtfx
