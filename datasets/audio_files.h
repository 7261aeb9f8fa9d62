// Lists the files of folders.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "datasets/utterance.h"

namespace rtfx {

/// Returns every file below `folder` whose name ends in one of `endings`, sorted by path. Endings
/// are lower case, and the case of the file's name is ignored. Links are followed. The files "._*"
/// in which macOS keeps attributes of other files are left out. If `notices` is given, a notice
/// with their number is added to it. Throws UserError if `folder` is no directory or holds no such
/// file. Also throws for a folder that cannot be read, for a broken link, and for a pipe or device
/// with such a name. If `skipped` is given, the last three errors are added to it, and the other
/// files are returned.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::vector<std::string>& endings,
                                               std::vector<std::string>* notices = nullptr,
                                               std::vector<UserError>* skipped = nullptr);

/// Returns one utterance per file, whose id is its path. A folder stands for the audio files below
/// it (media_endings()). Throws UserError for a missing path, a pipe or device, an empty folder or
/// a file named twice. If several paths are missing, it also throws an error at `where` with their
/// number. Appends the notices of files_below() to `notices`.
std::vector<Utterance> list_audio_files(const std::vector<std::string>& paths,
                                        const std::string& where,
                                        std::vector<std::string>& notices);

}  // namespace rtfx
