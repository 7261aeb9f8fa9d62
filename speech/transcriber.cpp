#include "speech/transcriber.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/samples.h"
#include "datasets/audio.h"
#include "datasets/media.h"
#include "speech/long_audio/long_audio.h"
#include "speech/pipeline/overlapped_pipeline.h"
#include "speech/pipeline/read_ahead.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {
namespace {

constexpr size_t kInFlight = 6;            // batches on a GPU
constexpr int64_t kChunksAtOnce = 8;       // of a long recording, at least
constexpr int64_t kMostChunks = 64;        // at most, where their number follows from the memory
constexpr int64_t kMostRecordings = 1024;  // of a batch on a GPU
constexpr size_t kReadersForGpu = 8;       // one thread reads 4,000 times faster than real time
constexpr size_t kReadersForCpu = 2;       // there the model needs the threads
constexpr size_t kReadAhead = 4096;        // recordings at most
constexpr size_t kReadAheadBytes = size_t{1} << 30;  // of samples: 4.6 hours
// Batches are formed of so many batches' recordings, the longest first. The first windows are
// small, so that the GPU has work early.
constexpr double kFirstWindow = 0.25, kLargestWindow = 4;

/// The head that finds the decoder's tokens.
Head head_of(const Decoder& decoder, const AcousticModel& model) {
  const Head head = decoder.describe().head;
  if (head != Head::none) return head;
  return model.joint ? Head::transducer : Head::ctc;
}

}  // namespace

struct Transcriber::Clip {
  size_t recording = 0;
  Audio audio = {};  // empty where the header says that the recording is long
  std::optional<std::span<const float>> in_memory = {};  // samples in place of those of `audio`
  bool is_long = false;                                  // to be transcribed chunk by chunk
  std::optional<int64_t> prompt = {};                    // of the recording's language

  std::span<const float> samples() const { return in_memory.value_or(audio.samples); }
  double seconds() const { return static_cast<double>(samples().size()) / audio.sample_rate; }
  size_t bytes() const { return audio.samples.size() * sizeof(float); }  // that it holds
};

struct Transcriber::Parts {
  Parts(const std::shared_ptr<const AcousticModel>& model, std::shared_ptr<RecordedEncoder> shared)
      : encoder(shared ? std::move(shared)
                       : std::make_shared<RecordedEncoder>(model, /*graphs=*/true)),
        pipeline(model, *encoder, model->device.is_cuda() ? kInFlight : 1) {}

  std::shared_ptr<RecordedEncoder> encoder;
  OverlappedPipeline pipeline;  // on a CPU, batches in flight would take each other's threads
  std::shared_ptr<Decoder> decoder;
  std::optional<Confidence> confidence;  // for the times of words too
  int64_t free_bytes = 0;                // before the first batch: one is encoded at a time
  int64_t batch_size = 1;
  double batch_seconds = std::numeric_limits<double>::infinity();  // with the padding
  bool found = false;  // the size of a batch follows from the memory
};

/// One call of run().
class Transcriber::Pass {
 public:
  Pass(const Transcriber& transcriber, const std::vector<Recording>& recordings,
       TranscriptionObserver& observer)
      : model_(*transcriber.model_),
        options_(transcriber.options_),
        parts_(*transcriber.parts_),
        recordings_(recordings),
        observer_(observer),
        window_batches_(parts_.found ? kFirstWindow : 1),
        clips_(
            recordings.size(), read_ahead(), [this](size_t index) { return read(index); },
            [](const Clip& clip) { return clip.bytes(); }) {}

  Totals run() {
    const Confidence* confidence = parts_.confidence ? &*parts_.confidence : nullptr;
    while (!stopped() && (clips_.more() || !window_.empty())) {
      parts_.pipeline.run(
          *parts_.decoder, [this](size_t, BatchInFlight& batch) { return fill(batch); },
          [this](size_t, BatchInFlight& batch) { finish(batch); }, confidence);
      if (long_clip_) transcribe_long(*std::exchange(long_clip_, std::nullopt));
    }
    return totals_;
  }

 private:
  size_t readers() const { return model_.device.is_cuda() ? kReadersForGpu : kReadersForCpu; }

  /// On a CPU, recordings that wait for the model would only take memory.
  ReadAheadLimits read_ahead() const {
    if (!model_.device.is_cuda()) return {.threads = readers(), .items = readers()};
    return {.threads = readers(), .items = kReadAhead, .bytes = kReadAheadBytes};
  }

  bool is_long(double seconds) const {
    return seconds > options_.long_above && parts_.decoder->describe().streams;
  }

  void require_memory(int64_t rows, double seconds, const std::string& where) const {
    const auto rate = static_cast<double>(model_.config.features.sample_rate);
    require_encoder_memory(model_, rows, static_cast<int64_t>(seconds * rate), parts_.free_bytes,
                           where);
  }

  /// Called on any thread.
  Clip read(size_t index) const {
    const Recording& recording = recordings_[index];
    std::optional<int64_t> prompt;
    if (const PromptConfig& known = model_.config.prompt; recording.language && known.count > 0)
      prompt = known.of(*recording.language, recording.name);
    Clip clip = recording.samples ? read_memory(index) : read_file(index);
    clip.prompt = prompt;
    if (clip.is_long) return clip;
    clip.is_long = is_long(clip.seconds());
    if (!clip.is_long) require_memory(1, clip.seconds(), recording.name);
    return clip;
  }

  /// Checks what the reading of a file checks.
  Clip read_memory(size_t index) const {
    const Recording& recording = recordings_[index];
    Clip clip{index, {}, recording.samples};
    clip.audio.sample_rate = static_cast<int>(model_.config.features.sample_rate);
    if (clip.samples().empty()) throw UserError(recording.name, "no samples", "leave it out");
    require_sound(clip.samples(), recording.name, "repair the audio or leave it out");
    return clip;
  }

  /// The header is asked first, since the samples of an hour take 0.2 GB.
  Clip read_file(size_t index) const {
    const Recording& recording = recordings_[index];
    const double seconds = media_seconds(recording.audio);
    if (is_whole(recording.segment, seconds)) {
      // read_media() refuses a track that there is not, and the reader of long audio knows none.
      if (is_long(seconds) && recording.segment.track <= 1) return {index, {}, {}, true};
      require_memory(1, seconds, recording.name);
    }
    const AudioChoice choice{recording.segment.channel, recording.segment.track};
    Clip clip{index, read_media(recording.audio, 16000, choice)};
    cut(clip.audio, recording.segment, recording.name);
    return clip;
  }

  /// Calls the observer while no other thread does.
  template <class Call>
  void tell(const Call& call) {
    const std::lock_guard lock(mutex_);
    call();
  }

  bool stopped() {
    const std::lock_guard lock(mutex_);
    return observer_.stopped();
  }

  void tell_notices(size_t recording, const std::vector<std::string>& notices) {
    tell([&] {
      for (const std::string& notice : notices) observer_.notice(recording, notice);
    });
  }

  /// Reports the exception that is being handled. A user error names the file by its path, which
  /// may be a copy: the message then has the recording's name instead.
  void tell_failure(size_t index) {
    const Recording& recording = recordings_[index];
    try {
      throw;
    } catch (const UserError& error) {
      std::string message = error.what();
      if (error.where() == recording.audio.string())
        message.replace(0, error.where().size(), recording.name);
      fail_with(index, message, true);
    } catch (...) {
      fail(index, describe_failure(), false);
    }
  }

  void fail(size_t index, const std::string& why, bool bad_input) {
    fail_with(index, recordings_[index].name + ": " + why, bad_input);
  }

  void fail_with(size_t index, const std::string& message, bool bad_input) {
    end(index, [this, index, message, bad_input] { observer_.failure(index, message, bad_input); });
  }

  /// Calls `call`, which tells the observer the end of a recording, when all before it have ended.
  void end(size_t index, std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    ends_.emplace(index, std::move(call));
    for (; !ends_.empty() && ends_.begin()->first == ended_; ++ended_) {
      ends_.begin()->second();
      ends_.erase(ends_.begin());
    }
  }

  /// Reads the recordings that the next batches are formed of, up to a long one, which stands
  /// alone.
  void read_window() {
    const auto most = static_cast<size_t>(
        std::max(1.0, window_batches_ * static_cast<double>(parts_.batch_size)));
    double seconds = 0;
    size_t bytes = 0;
    while (clips_.more() && !long_clip_ && !stopped() && bytes < kReadAheadBytes &&
           window_.size() < (parts_.batch_size == 1 ? 1 : most) &&
           seconds < window_batches_ * parts_.batch_seconds) {
      const size_t index = clips_.index();
      tell([&] { observer_.reading(index); });
      try {
        Clip clip = clips_.next();
        if (clip.is_long) {
          long_clip_ = std::move(clip);
          break;
        }
        tell_notices(index, clip.audio.notices);
        seconds += clip.seconds();
        bytes += clip.bytes();
        window_.push_back(std::move(clip));
      } catch (...) {
        tell_failure(index);
      }
    }
    std::ranges::stable_sort(window_, std::ranges::greater(),
                             [](const Clip& clip) { return clip.samples().size(); });
    window_batches_ = std::min(kLargestWindow, 2 * window_batches_);
  }

  /// Whether a batch of so many recordings, of which the longest one has `seconds`, is not too
  /// large.
  bool is_batch(size_t recordings, double seconds) const {
    const auto rows = static_cast<int64_t>(recordings);
    if (rows > parts_.batch_size || seconds * static_cast<double>(rows) > parts_.batch_seconds)
      return false;
    if (!parts_.found) return true;  // then a batch without room is an error
    const auto rate = static_cast<double>(model_.config.features.sample_rate);
    return 2 * least_encoder_memory(model_, rows, static_cast<int64_t>(seconds * rate)) <=
           parts_.free_bytes;
  }

  /// Forms the next batch. Returns false where there are no recordings, a long one comes first, or
  /// the observer has stopped the pass.
  bool fill(BatchInFlight& batch) {
    while (window_.empty() && clips_.more() && !long_clip_ && !stopped()) read_window();
    if (window_.empty() || stopped()) return false;
    const double longest = window_.front().seconds();
    std::vector<Clip> clips;
    do {
      clips.push_back(std::move(window_.front()));
      window_.pop_front();
    } while (!window_.empty() && is_batch(clips.size() + 1, longest));
    std::vector<size_t> indices;
    for (const Clip& clip : clips) indices.push_back(clip.recording);
    const std::lock_guard lock(mutex_);
    observer_.started(indices);
    const std::vector<Clip>& kept = in_flight_.emplace_back(std::move(clips));
    for (const Clip& clip : kept) batch.clips.emplace_back(clip.samples(), clip.prompt);
    require_memory(static_cast<int64_t>(kept.size()), longest, "batch size");
    return true;
  }

  void finish(BatchInFlight& batch) {
    std::vector<Clip> clips;
    tell([&] {
      clips = std::move(in_flight_.front());
      in_flight_.pop_front();
    });
    if (batch.failure) {
      std::string why;
      bool bad_input = false;
      try {
        std::rethrow_exception(batch.failure);
      } catch (const UserError& error) {
        why = error.what();
        bad_input = true;
      } catch (...) {
        why = describe_failure();
      }
      for (const Clip& clip : clips) fail(clip.recording, why, bad_input);
      return;
    }
    totals_.confidence_seconds += batch.times.seconds(Region::confidence);
    for (size_t row = 0; row < clips.size(); ++row)
      give(clips[row].recording, clips[row].seconds(), batch.decoded, row, {});
  }

  /// Reads block by block. A file that only ffmpeg can decode is in memory already.
  void transcribe_long(Clip clip) {
    const size_t index = clip.recording;
    tell([&] { observer_.started({index}); });
    try {
      LongAudioOptions cuts;
      cuts.chunk_seconds = options_.chunk_seconds;
      cuts.context_seconds = options_.context_seconds;
      cuts.batch = std::max(chunks_at_once(), kChunksAtOnce);
      cuts.prompt = clip.prompt;
      LongAudio audio(cuts, model_, *parts_.encoder, *parts_.decoder,
                      parts_.confidence ? &*parts_.confidence : nullptr);
      const auto rate = static_cast<int>(model_.config.features.sample_rate);
      std::optional<ParallelAudio> file;
      ChunkSource source = source_of(clip.samples());
      if (clip.samples().empty()) {
        const Recording& recording = recordings_[index];
        file.emplace(recording.audio, rate, readers(), recording.segment.channel);
        source = {[&](size_t first, size_t count) { return file->read(first, count); },
                  file->threads()};
      }
      const LongResult result = audio.transcribe(source, [&](double seconds) {
        tell([&] { observer_.progress(index, seconds); });
        if (stopped()) throw Interrupted();
      });
      tell_notices(index, file ? file->notices() : clip.audio.notices);
      tell_notices(index, result.notices);
      Decoded decoded;
      decoded.hypotheses = {result.hypothesis};
      if (parts_.confidence) decoded.evidence = {{result.evidence}};
      totals_.confidence_seconds += result.confidence_seconds;
      give(index, static_cast<double>(result.samples) / rate, decoded, 0, result.sections);
    } catch (const Interrupted&) {
    } catch (...) {
      tell_failure(index);
    }
  }

  /// Chunks of a long recording that take as much memory as a batch.
  int64_t chunks_at_once() const {
    if (!parts_.found) return parts_.batch_size;
    const double padded = options_.chunk_seconds + 2 * options_.context_seconds;
    return std::min(kMostChunks, static_cast<int64_t>(parts_.batch_seconds / padded));
  }

  /// Gives the observer the result in row `row` of a batch.
  void give(size_t index, double seconds, const Decoded& decoded, size_t row,
            const std::vector<LongSection>& sections) {
    const Hypothesis& hypothesis = decoded.hypotheses[row];
    if (hypothesis.nan)
      return fail(index, "NaN in the emissions; " + remedy_for_nan(model_), false);
    totals_.audio_seconds += seconds;
    const Transcription result{seconds, hypothesis, transcript(seconds, decoded, row, sections)};
    end(index, [this, index, result] { observer_.result(index, result); });
  }

  Transcript transcript(double seconds, const Decoded& decoded, size_t row,
                        const std::vector<LongSection>& sections) const {
    const Hypothesis& hypothesis = decoded.hypotheses[row];
    const Tokenizer& tokenizer = *model_.tokenizer;
    if (!options_.with_times) {
      Transcript text;
      text.text = decoded.texts.empty() ? text_of(hypothesis, tokenizer) : decoded.texts[row];
      return text;
    }
    const auto evidence = [&](size_t entry) {
      return decoded.evidence.empty() ? TokenEvidence() : decoded.evidence[row][entry];
    };
    const TranscriptRules rules{
        .frame_seconds = model_.config.frame_seconds(),
        .audio_seconds = seconds,
        .pause = options_.pause,
        .aggregation = options_.confidence ? options_.confidence->aggregation : "min"};
    Transcript best = transcript_of(hypothesis, evidence(0), tokenizer, rules);
    for (size_t i = 0; i < hypothesis.nbest.size(); ++i) {
      best.alternatives.push_back(
          transcript_of(hypothesis.nbest[i], evidence(i + 1), tokenizer, rules));
    }
    for (const LongSection& section : sections) {
      const double start = static_cast<double>(section.first) * rules.frame_seconds;
      if (!best.sections.empty()) best.sections.back().end = start;
      best.sections.push_back({start, seconds, {}});
      for (const Hypothesis& entry : section.nbest)
        best.sections.back().alternatives.push_back(transcript_of(entry, {}, tokenizer, rules));
    }
    return best;
  }

  const AcousticModel& model_;
  const TranscriberOptions& options_;
  Parts& parts_;
  const std::vector<Recording>& recordings_;
  TranscriptionObserver& observer_;
  double window_batches_;
  std::deque<Clip> window_;        // the longest one comes first
  std::optional<Clip> long_clip_;  // the recording after these, if it is long
  Totals totals_;
  std::mutex mutex_;                              // guards what follows, and calls of the observer
  std::list<std::vector<Clip>> in_flight_;        // batches without a result
  std::map<size_t, std::function<void()>> ends_;  // of recordings that wait for earlier ones
  size_t ended_ = 0;                              // recordings whose end was told
  ReadAhead<Clip> clips_;  // the last member, since its threads use the others
};

Transcriber::Transcriber(std::shared_ptr<const AcousticModel> model, const ChooseDecoder& choose,
                         const TranscriberOptions& options,
                         std::shared_ptr<RecordedEncoder> encoder)
    : model_(std::move(model)),
      options_(options),
      parts_(std::make_unique<Parts>(model_, std::move(encoder))) {
  const bool gpu = model_->device.is_cuda();
  if (options.batch_size > 0) {
    parts_->batch_size = options.batch_size;
  } else if (gpu) {
    parts_->batch_size = kMostRecordings;
    parts_->found = true;
  }
  parts_->decoder = choose([this](Decoder& decoder) { parts_->pipeline.prepare(decoder, {}); });
  if (options.with_times || options.confidence)
    parts_->confidence.emplace(model_, head_of(*parts_->decoder, *model_), options.confidence);
  parts_->free_bytes = free_memory(model_->device);
  if (parts_->found)
    parts_->batch_seconds = fitting_batch_seconds(*model_, parts_->free_bytes, kInFlight);
}

Transcriber::~Transcriber() = default;

Transcriber::Totals Transcriber::run(const std::vector<Recording>& recordings,
                                     TranscriptionObserver& observer) {
  return Pass(*this, recordings, observer).run();
}

}  // namespace rtfx
