// Plain audio files and folders of them, without references.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/utterance.h"

namespace rtfx {

/// Every file below `folder` whose name ends in one of `endings` (lower case; the file's case is
/// ignored), sorted by path. Throws UserError when `folder` is no directory or holds none.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::vector<std::string>& endings);

/// One utterance per file, its path being its id; a directory stands for the .wav, .flac and .ogg
/// files below it. Throws UserError for a missing path, an empty folder or a file named twice.
std::vector<Utterance> list_audio_files(const std::vector<std::string>& paths);

}  // namespace rtfx
