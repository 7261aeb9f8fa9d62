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

/// Reads what libsndfile can open with read_audio(). For other files with an ending that ffmpeg is
/// for, ffmpeg decodes the first sound track, mixes it to mono and resamples it. ffmpeg runs as a
/// child process without a shell and without access to a network, and this call waits for it.
///
/// Throws UserError naming the file where read_audio() does, where ffmpeg is not installed, and
/// with ffmpeg's own words where it fails or finds no sound.
Audio read_media(const std::filesystem::path& path, int sample_rate = 16000);

/// audio_seconds(); 0 where only ffmpeg could tell.
double media_seconds(const std::filesystem::path& path);

}  // namespace rtfx
