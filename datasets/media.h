// Audio of people's files: what libsndfile reads (audio.h), and through the system's ffmpeg, where
// it is installed, sound tracks of videos and formats such as m4a.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "datasets/audio.h"

namespace rtfx {

/// Endings (lower case, with the dot) of the names of files with sound.
const std::vector<std::string>& media_endings();

/// An audio track and a channel of it; see AudioSegment.
struct AudioChoice {
  int channel = 0, track = 0;
};

/// Bounds of one run of ffmpeg, which is ended where it goes beyond them.
struct FfmpegLimits {
  double silent_seconds = 120;                 // without a byte of sound
  double audio_seconds = 24.0 * 3600;          // of sound
  int64_t complaint_bytes = int64_t{1} << 24;  // of messages
};
/// Those of this process, which tests may change.
FfmpegLimits& ffmpeg_limits();

/// Reads what libsndfile can open with read_audio(). Other files with an ending that ffmpeg is for,
/// or that begin as a container of video or sound does, are decoded by ffmpeg. It gives the chosen
/// track, its channel or the average of all, resampled. ffmpeg runs as a child process without a
/// shell and without access to a network, once to count the channels and once to decode. This call
/// waits for it.
///
/// Throws UserError naming the file where read_audio() does, where ffmpeg is not installed or goes
/// beyond ffmpeg_limits(), and with ffmpeg's own words where it fails or finds no sound.
Audio read_media(const std::filesystem::path& path, int sample_rate = 16000,
                 const AudioChoice& choice = {});

/// The number of channels of a track. ffmpeg decodes a moment of the files that it is for. Throws
/// as read_media() does.
int media_channels(const std::filesystem::path& path, int track = 0);

/// audio_seconds(); 0 where only ffmpeg could tell.
double media_seconds(const std::filesystem::path& path);

}  // namespace rtfx
