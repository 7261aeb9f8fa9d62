// Audio of people's files: what libsndfile reads (audio.h), and through the system's ffmpeg, where
// it is installed, sound tracks of videos and formats such as m4a.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/audio.h"

namespace rtfx {

/// Endings (lower case, with the dot) of the names of files with sound.
const std::vector<std::string>& media_endings();

/// read_audio(); where libsndfile cannot open the file and its name has one of the endings that
/// ffmpeg is for, the first sound track, mixed to mono and resampled by ffmpeg, which is run as a
/// child process, without a shell and without access to a network. Waits for it. Throws UserError
/// naming the file: as read_audio() does; where ffmpeg is not installed; and with ffmpeg's own
/// words where it fails or finds no sound.
Audio read_media(const std::filesystem::path& path, int sample_rate = 16000);

/// audio_seconds(); 0 where only ffmpeg could tell.
double media_seconds(const std::filesystem::path& path);

}  // namespace rtfx
