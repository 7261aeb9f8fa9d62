// Whether the container of an audio file is whole. libsndfile reads what is there and tells of a
// file that was cut in its log at most.
#pragma once

#include <filesystem>
#include <string>

namespace rtfx {

/// What is wrong with an Ogg file: its last page is missing or cut, bytes between its pages are
/// damaged, or several streams follow each other (libsndfile reads the first). Empty if it is
/// whole. Reads the file once.
std::string ogg_problem(const std::filesystem::path& path);

/// By libsndfile's `log` of an open file (SFC_GET_LOG_INFO): the header of a WAV, RF64, W64, AIFF,
/// AU, CAF or VOC file promises more bytes than follow. Not where the writer could not know: into a
/// pipe, ffmpeg writes 0xffffffff for the size, sox 0x7ffff000.
bool promises_more(const std::string& log);

}  // namespace rtfx
