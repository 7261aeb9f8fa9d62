// Describes recordings and reads their samples: short ones at once, long ones block by block.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/audio.h"
#include "datasets/parallel_audio.h"
#include "speech/long_audio/chunks.h"
#include "speech/pipeline/pipeline.h"

namespace rtfx {

/// An audio file to transcribe, or a segment of one. Messages use `name` for it.
struct Recording {
  std::string name;
  std::filesystem::path audio;
  AudioSegment segment = {};
  /// Mono samples at the model's rate, instead of a file. They must outlive their use.
  std::optional<std::span<const float>> samples = {};
  /// The language that the manifest states. Models without prompts ignore it.
  std::optional<std::string> language = {};
};

/// The samples of a recording.
struct Clip {
  size_t recording = 0;                                  // its index in the caller's list
  Audio audio = {};                                      // empty where a long file is not read yet
  std::optional<std::span<const float>> in_memory = {};  // samples instead of those of `audio`
  bool is_long = false;                                  // true = encoded chunk by chunk
  std::optional<int64_t> prompt = {};                    // prompt of the recording's language
  double declared_seconds = 0;                           // of an unread file, by its header

  std::span<const float> samples() const { return in_memory.value_or(audio.samples); }
  double seconds() const {
    return samples().empty() ? declared_seconds
                             : static_cast<double>(samples().size()) / audio.sample_rate;
  }
  size_t bytes() const { return audio.samples.size() * sizeof(float); }  // bytes that it owns
  ClipOfBatch of_batch() const { return {samples(), prompt}; }
};

/// The most recordings in a batch on a GPU.
inline constexpr int64_t kMostRecordings = 1024;

/// Returns the number of threads that read recordings for a model on `device`. One thread reads
/// 4,000 times faster than real time. They are few for a CPU, since the model needs its threads.
size_t reader_threads(const at::Device& device);

struct ReadingRules {
  int sample_rate = kSampleRate;                // rate of the model, Hz
  const PromptConfig* prompts = nullptr;        // prompts of the model; null = it takes none
  std::function<bool(double seconds)> is_long;  // whether a recording is encoded chunk by chunk
  /// Throws UserError, with `where`, where a recording that is not long does not fit into memory.
  std::function<void(double seconds, const std::string& where)> require_memory;
};

/// Reads the recording with that index. Does not read a file whose header says that it is long.
/// Throws UserError, and names the recording or its file. Also throws for a language that the model
/// does not know, and for a missing language that it needs. May be called from any thread.
Clip read_clip(const Recording& recording, size_t index, const ReadingRules& rules);

/// Reads a long clip for a ChunkReader, from memory or with up to `threads` threads from its file.
class LongClip {
 public:
  /// Both arguments must outlive this. Throws UserError.
  LongClip(const Clip& clip, const Recording& recording, int sample_rate, size_t threads);

  ChunkSource source();
  std::vector<std::string> notices() const;  // notices of the parts read so far

 private:
  const Clip& clip_;
  std::optional<ParallelAudio> file_;
};

/// The reason why a recording has no result. With `bad_input`, the recording or an option is at
/// fault (UserError).
struct RecordingFailure {
  std::string message;  // begins with the recording's name
  bool bad_input = false;
};

/// Describes the exception that is being handled. A user error names the file by its path, which
/// may be that of a copy. The message then has the recording's name instead.
RecordingFailure failure_of(const Recording& recording);

}  // namespace rtfx
