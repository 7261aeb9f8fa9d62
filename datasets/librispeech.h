// LibriSpeech folders: `<id> <TEXT>` lines in *.trans.txt, and <id>.flac or <id>.wav beside them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/utterance.h"

namespace rtfx {

/// All utterances below `folder`, in the order of the transcripts' paths and lines. The bytes of
/// the transcripts are appended to `transcripts`.
/// Throws UserError for a folder that is missing or without transcripts, at "transcript:line" for
/// missing audio or a repeated id.
std::vector<Utterance> read_librispeech(const std::filesystem::path& folder,
                                        std::string& transcripts);

}  // namespace rtfx
