#include "speech/recording.h"

#include "base/error.h"
#include "base/samples.h"
#include "datasets/media.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

/// Makes the checks that reading a file makes.
Clip read_memory(const Recording& recording, size_t index, const ReadingRules& rules) {
  Clip clip{index, {}, recording.samples};
  clip.audio.sample_rate = rules.sample_rate;
  if (clip.samples().empty()) throw UserError(recording.name, "no samples", "leave it out");
  require_valid_samples(clip.samples(), recording.name, "repair the audio or leave it out");
  return clip;
}

/// Reads the header first, because the samples of an hour take 0.2 GB.
Clip read_file(const Recording& recording, size_t index, const ReadingRules& rules) {
  const double seconds = media_seconds(recording.audio);
  if (is_whole(recording.segment, seconds)) {
    // read_media() refuses a track that does not exist. The reader of long audio has no tracks.
    if (rules.is_long(seconds) && recording.segment.track <= 1)
      return {index, {}, {}, true, {}, seconds};
    rules.require_memory(seconds, recording.name);
  }
  const AudioChoice choice{recording.segment.channel, recording.segment.track};
  Clip clip{index, read_media(recording.audio, rules.sample_rate, choice)};
  cut(clip.audio, recording.segment, recording.name);
  return clip;
}

}  // namespace

size_t reader_threads(const at::Device& device) { return device.is_cuda() ? 8 : 2; }

Clip read_clip(const Recording& recording, size_t index, const ReadingRules& rules) {
  std::optional<int64_t> prompt;
  if (const PromptConfig* const known = rules.prompts; known != nullptr && known->count > 0) {
    if (recording.language) prompt = known->of(*recording.language, recording.name);
    prompt = known->or_standard(prompt, recording.name);
  }
  Clip clip =
      recording.samples ? read_memory(recording, index, rules) : read_file(recording, index, rules);
  clip.prompt = prompt;
  if (clip.is_long) return clip;
  clip.is_long = rules.is_long(clip.seconds());
  if (!clip.is_long) rules.require_memory(clip.seconds(), recording.name);
  return clip;
}

LongClip::LongClip(const Clip& clip, const Recording& recording, int sample_rate, size_t threads)
    : clip_(clip) {
  if (clip.samples().empty())
    file_.emplace(recording.audio, sample_rate, threads, recording.segment.channel);
}

ChunkSource LongClip::source() {
  if (!file_) return source_of(clip_.samples());
  return {[this](size_t first, size_t count) { return file_->read(first, count); },
          file_->threads()};
}

std::vector<std::string> LongClip::notices() const {
  return file_ ? file_->notices() : clip_.audio.notices;
}

RecordingFailure failure_of(const Recording& recording) {
  try {
    throw;
  } catch (const UserError& error) {
    std::string message = error.what();
    if (error.where() == recording.audio.string())
      message.replace(0, error.where().size(), recording.name);
    return {message, true};
  } catch (...) {
    return {recording.name + ": " + describe_failure(), false};
  }
}

}  // namespace rtfx
