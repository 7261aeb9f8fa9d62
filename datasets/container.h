// Whether the container of an audio file is whole. libsndfile reads what is there and tells of a
// file that was cut in its log at most.
#pragma once

#include <filesystem>
#include <string>

namespace rtfx {

/// Describes the damage of an Ogg file; empty if it is whole. Its last page may be missing or cut,
/// bytes between its pages may be damaged, or several streams may follow each other, of which
/// libsndfile reads the first. Reads the file once.
std::string ogg_problem(const std::filesystem::path& path);

/// Whether the header of a WAV, RF64, W64, AIFF, AU, CAF or VOC file promises more bytes than
/// follow. `log` is libsndfile's log of the open file (SFC_GET_LOG_INFO). False where the writer
/// could not know the size: into a pipe, ffmpeg writes 0xffffffff and sox 0x7ffff000.
bool promises_more(const std::string& log);

}  // namespace rtfx
