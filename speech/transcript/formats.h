// Transcripts in other people's formats. docs/reference/transcripts.md describes each.
#pragma once

#include <string>
#include <vector>

#include "speech/transcript/transcript.h"

namespace rtfx {

enum class TranscriptFormat { txt, json, srt, vtt, ctm, stm, tsv };

/// Names as the command line knows them, which are the endings of files too.
const std::vector<std::string>& transcript_formats();
/// Throws UserError for another name; `where` names the option.
TranscriptFormat transcript_format(const std::string& name, const std::string& where);

/// Whether several transcripts one after the other are a file of the format.
bool is_concatenable(TranscriptFormat format);

struct TranscribedFile {
  std::string file;    // as it was named
  double seconds = 0;  // of audio
  Transcript transcript;
  std::string reference;  // of a manifest; empty where there is none
  bool has_reference = false;
  bool with_tokens = false;  // JSON: a list of tokens too
};

/// The head of a file, in front of all transcripts.
std::string format_head(TranscriptFormat format);

/// `file` in the format, with the end of its last line; empty for CTM, STM and TSV without words.
std::string formatted(const TranscribedFile& file, TranscriptFormat format);

/// One line of JSON, without its end: schema "rtfx.transcript/1".
std::string transcript_json(const TranscribedFile& file);

}  // namespace rtfx
