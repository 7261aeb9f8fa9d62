// Lists the utterances of a LibriSpeech folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/utterance.h"

namespace rtfx {

/// Reads LibriSpeech folders. They hold `<id> <TEXT>` lines in *.trans.txt, and <id>.flac or
/// <id>.wav beside them. Returns all utterances below `folder`, in the order of the transcripts'
/// paths and lines. Appends the bytes of the transcripts to `transcripts`, and the notice of
/// files_below() to `notices`.
///
/// Throws UserError for a folder that is missing or has no transcripts. Throws UserError at
/// "transcript:line" for missing audio, a repeated id, a NUL or text that is not UTF-8. If several
/// files are missing, it also throws an error at `folder` with their number.
std::vector<Utterance> read_librispeech(const std::filesystem::path& folder,
                                        std::string& transcripts,
                                        std::vector<std::string>& notices);

}  // namespace rtfx
