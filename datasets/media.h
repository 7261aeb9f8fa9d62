// Reads audio of any format that libsndfile knows (audio.h). Uses the system's ffmpeg, where it is
// installed, for sound tracks of videos and formats such as m4a.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "datasets/audio.h"

namespace rtfx {

/// Returns the endings (lower case, with the dot) of the names of audio and video files.
const std::vector<std::string>& media_endings();

/// An audio track and one of its channels; see AudioSegment.
struct AudioChoice {
  int channel = 0, track = 0;
};

/// The limits of one run of ffmpeg, which is ended where it exceeds them.
struct FfmpegLimits {
  double stall_seconds = 120;                // longest time in which ffmpeg writes no sound
  double audio_seconds = 24.0 * 3600;        // length of the sound
  int64_t message_bytes = int64_t{1} << 24;  // size of the messages
};
/// Returns the limits of this process, which tests may change.
FfmpegLimits& ffmpeg_limits();

/// Reads the file with read_audio() if libsndfile can open it. ffmpeg decodes other files that have
/// one of its endings, or that begin like a container of video or sound. It returns the chosen
/// track, one channel of it or the average of all, resampled. ffmpeg runs as a child process
/// without a shell and without access to a network, once to count the channels and once to decode.
/// This call waits for it.
///
/// Throws UserError, and names the file, where read_audio() does. Also throws where ffmpeg is not
/// installed or exceeds ffmpeg_limits(). Where ffmpeg fails or finds no sound, the error has
/// ffmpeg's message.
Audio read_media(const std::filesystem::path& path, int sample_rate = kSampleRate,
                 const AudioChoice& choice = {});

/// Returns the number of channels of a track. Where ffmpeg is needed, it decodes a moment of the
/// file. Throws as read_media() does.
int media_channels(const std::filesystem::path& path, int track = 0);

/// Returns audio_seconds(), or 0 where only ffmpeg could tell.
double media_seconds(const std::filesystem::path& path);

}  // namespace rtfx
