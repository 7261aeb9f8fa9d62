// Recordings, and the reading of their samples: short ones at once, long ones block by block.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/audio.h"
#include "speech/long_audio/chunks.h"
#include "speech/pipeline/pipeline.h"

namespace rtfx {

/// An audio file, or a segment of it, that is to be transcribed. `name` stands for it in messages.
struct Recording {
  std::string name;
  std::filesystem::path audio;
  AudioSegment segment = {};
  /// Mono samples at the model's rate, in place of a file. They must outlive their use.
  std::optional<std::span<const float>> samples = {};
  /// The language that its manifest states. Models without prompts do not read it.
  std::optional<std::string> language = {};
};

/// The samples of a recording.
struct Clip {
  size_t recording = 0;                                  // its index in the caller's list
  Audio audio = {};                                      // empty where a long file is not read yet
  std::optional<std::span<const float>> in_memory = {};  // samples in place of those of `audio`
  bool is_long = false;                                  // to be encoded chunk by chunk
  std::optional<int64_t> prompt = {};                    // of the recording's language
  double declared_seconds = 0;  // by the header, of a file that is not read

  std::span<const float> samples() const { return in_memory.value_or(audio.samples); }
  double seconds() const {
    return samples().empty() ? declared_seconds
                             : static_cast<double>(samples().size()) / audio.sample_rate;
  }
  size_t bytes() const { return audio.samples.size() * sizeof(float); }  // that it holds
  ClipOfBatch of_batch() const { return {samples(), prompt}; }
};

struct ReadingRules {
  int sample_rate = 16000;                      // of the model
  const PromptConfig* prompts = nullptr;        // of the model; null: it takes none
  std::function<bool(double seconds)> is_long;  // whether a recording is encoded chunk by chunk
  /// Throws UserError, with `where`, where one that is not long does not fit into memory.
  std::function<void(double seconds, const std::string& where)> require_memory;
};

/// Reads the recording with that index. A file whose header says that it is long stays unread.
/// Throws UserError naming the recording or its file, also for a language that the model does not
/// know, or needs and is not told. May be called on any thread.
Clip read_clip(const Recording& recording, size_t index, const ReadingRules& rules);

/// Reads a long clip for a ChunkReader: from memory, or its file by up to `threads` threads.
class LongClip {
 public:
  /// Both must outlive this. Throws UserError.
  LongClip(const Clip& clip, const Recording& recording, int sample_rate, size_t threads);

  ChunkSource source();
  std::vector<std::string> notices() const;  // of what was read so far

 private:
  const Clip& clip_;
  std::optional<ParallelAudio> file_;
};

/// Why a recording has no result. `bad_input`: the recording or an option is at fault (UserError).
struct RecordingFailure {
  std::string message;  // begins with the recording's name
  bool bad_input = false;
};

/// Describes the exception that is being handled. A user error names the file by its path, which
/// may be a copy: the message then has the recording's name instead.
RecordingFailure failure_of(const Recording& recording);

}  // namespace rtfx
