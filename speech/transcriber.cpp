#include "speech/transcriber.h"

#include <algorithm>
#include <deque>
#include <future>
#include <limits>
#include <list>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "datasets/audio.h"
#include "datasets/media.h"
#include "speech/long_audio/long_audio.h"
#include "speech/pipeline/overlapped_pipeline.h"
#include "speech/pipeline/recorded_encoder.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

constexpr size_t kInFlight = 6;       // batches on a GPU
constexpr int64_t kChunksAtOnce = 8;  // of a long recording, at least
constexpr int64_t kGpuBatch = 32;     // recordings that keep a GPU busy
constexpr double kGpuSeconds = 1200;  // padded seconds of such a batch: a bound on its memory
constexpr size_t kReadersForGpu = 8;  // one thread reads 4,000 times faster than real time
constexpr size_t kReadersForCpu = 2;  // there the model needs the threads

/// The head that finds the decoder's tokens.
Head head_of(const Decoder& decoder, const AcousticModel& model) {
  const Head head = decoder.describe().head;
  if (head != Head::none) return head;
  return model.joint ? Head::transducer : Head::ctc;
}

}  // namespace

struct Transcriber::Clip {
  size_t recording = 0;
  Audio audio;           // empty where the header says that the recording is long
  bool is_long = false;  // to be transcribed chunk by chunk
};

/// Reads recordings ahead, in their order, for one thread that asks for them.
class Transcriber::ClipReader {
 public:
  /// `read` reads one recording on any thread, and throws where it cannot.
  ClipReader(size_t recordings, size_t readers, std::function<Clip(size_t)> read)
      : recordings_(recordings), readers_(readers), read_(std::move(read)) {}

  bool more() const { return next_ < recordings_; }
  size_t recording() const { return next_; }

  /// The clip of recording(), or its error. The reader then is at the next recording.
  Clip next() {
    for (; ahead_.size() < readers_ && started_ < recordings_; ++started_)
      ahead_.push_back(std::async([this, index = started_] { return read_(index); }));
    ++next_;
    if (returned_) return *std::exchange(returned_, std::nullopt);
    std::future<Clip> clip = std::move(ahead_.front());
    ahead_.pop_front();
    return clip.get();
  }

  /// Takes back the last clip: the next call of next() returns it again.
  void put_back(Clip clip) {
    --next_;
    returned_ = std::move(clip);
  }

 private:
  size_t recordings_, readers_;
  std::function<Clip(size_t)> read_;
  size_t next_ = 0, started_ = 0;
  std::optional<Clip> returned_;
  std::deque<std::future<Clip>> ahead_;  // recordings up to started_ - 1
};

struct Transcriber::Parts {
  // No batch has the shape of an earlier one, so recording the encoder as graphs would not pay.
  explicit Parts(const std::shared_ptr<const AcousticModel>& model)
      : encoder(model, /*graphs=*/false),
        pipeline(model, encoder, model->device.is_cuda() ? kInFlight : 1) {}

  RecordedEncoder encoder;
  OverlappedPipeline pipeline;  // on a CPU, batches in flight would take each other's threads
  std::unique_ptr<Decoder> decoder;
  std::optional<Confidence> confidence;  // for the times of words too
  int64_t free_bytes = 0;                // before the first batch: one is encoded at a time
  int64_t batch_size = 1;
  double batch_seconds = std::numeric_limits<double>::infinity();  // with the padding
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
        clips_(recordings.size(), readers(), [this](size_t index) { return read(index); }) {}

  Totals run() {
    const Confidence* confidence = parts_.confidence ? &*parts_.confidence : nullptr;
    while (clips_.more()) {
      parts_.pipeline.run(
          *parts_.decoder, [this](size_t, BatchInFlight& batch) { return fill(batch); },
          [this](size_t, BatchInFlight& batch) { finish(batch); }, {}, confidence);
      if (long_clip_) transcribe_long(*std::exchange(long_clip_, std::nullopt));
    }
    return totals_;
  }

 private:
  size_t readers() const { return model_.device.is_cuda() ? kReadersForGpu : kReadersForCpu; }

  bool is_long(double seconds) const {
    return seconds > options_.long_above && parts_.decoder->describe().streams;
  }

  void require_memory(int64_t rows, double seconds, const std::string& where) const {
    const auto rate = static_cast<double>(model_.config.features.sample_rate);
    require_encoder_memory(model_, rows, static_cast<int64_t>(seconds * rate), parts_.free_bytes,
                           where);
  }

  /// Called on any thread. The header is asked first, since the samples of an hour take 0.2 GB.
  Clip read(size_t index) const {
    const Recording& recording = recordings_[index];
    const double seconds = media_seconds(recording.audio);
    if (is_whole(recording.segment, seconds)) {
      if (is_long(seconds)) return {index, {}, true};
      require_memory(1, seconds, recording.name);
    }
    const AudioChoice choice{recording.segment.channel, recording.segment.track};
    Clip clip{index, read_media(recording.audio, 16000, choice)};
    cut(clip.audio, recording.segment, recording.name);
    clip.is_long = is_long(clip.audio.seconds());
    if (!clip.is_long) require_memory(1, clip.audio.seconds(), recording.name);
    return clip;
  }

  /// Calls the observer while no other thread does.
  template <class Call>
  void tell(const Call& call) {
    const std::lock_guard lock(mutex_);
    call();
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
    std::string message;
    try {
      throw;
    } catch (const UserError& error) {
      message = error.what();
      if (error.where() == recording.audio.string())
        message.replace(0, error.where().size(), recording.name);
    } catch (...) {
      message = recording.name + ": " + describe_failure();
    }
    tell([&] { observer_.failure(index, message); });
  }

  /// Reads the clips of the next batch. Returns false where there are none, or a long recording
  /// comes first.
  bool fill(BatchInFlight& batch) {
    std::vector<Clip> clips;
    double longest = 0;
    while (clips_.more() && static_cast<int64_t>(clips.size()) < parts_.batch_size && !long_clip_) {
      const size_t index = clips_.recording();
      tell([&] { observer_.reading(index); });
      try {
        Clip clip = clips_.next();
        if (clip.is_long) {
          long_clip_ = std::move(clip);
          break;
        }
        const double seconds = std::max(longest, clip.audio.seconds());
        const double padded = seconds * static_cast<double>(clips.size() + 1);
        if (!clips.empty() && padded > parts_.batch_seconds) {
          clips_.put_back(std::move(clip));
          break;
        }
        tell_notices(index, clip.audio.notices);
        longest = seconds;
        clips.push_back(std::move(clip));
      } catch (...) {
        tell_failure(index);
      }
    }
    if (clips.empty()) return false;
    std::vector<size_t> indices;
    for (const Clip& clip : clips) indices.push_back(clip.recording);
    const std::lock_guard lock(mutex_);
    observer_.started(indices);
    const std::vector<Clip>& kept = in_flight_.emplace_back(std::move(clips));
    for (const Clip& clip : kept) batch.clips.push_back(&clip.audio.samples);
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
      try {
        std::rethrow_exception(batch.failure);
      } catch (...) {
        why = describe_failure();
      }
      for (const Clip& clip : clips) fail(clip.recording, why);
      return;
    }
    totals_.confidence_seconds += batch.times.seconds(Region::confidence);
    for (size_t row = 0; row < clips.size(); ++row)
      give(clips[row].recording, clips[row].audio.seconds(), batch.decoded, row, {});
  }

  /// Reads block by block. A file that only ffmpeg can decode is in memory already.
  void transcribe_long(Clip clip) {
    const size_t index = clip.recording;
    tell([&] { observer_.started({index}); });
    try {
      LongAudioOptions cuts;
      cuts.chunk_seconds = options_.chunk_seconds;
      cuts.context_seconds = options_.context_seconds;
      cuts.batch = std::max<int64_t>(parts_.batch_size, kChunksAtOnce);
      LongAudio audio(cuts, model_, parts_.encoder, *parts_.decoder,
                      parts_.confidence ? &*parts_.confidence : nullptr);
      const auto rate = static_cast<int>(model_.config.features.sample_rate);
      std::optional<ParallelAudio> file;
      ChunkSource source = source_of(clip.audio.samples);
      if (clip.audio.samples.empty()) {
        const Recording& recording = recordings_[index];
        file.emplace(recording.audio, rate, readers(), recording.segment.channel);
        source = {[&](size_t first, size_t count) { return file->read(first, count); },
                  file->threads()};
      }
      const LongResult result = audio.transcribe(
          source, [&](double seconds) { tell([&] { observer_.progress(index, seconds); }); });
      tell_notices(index, file ? file->notices() : clip.audio.notices);
      tell_notices(index, result.notices);
      Decoded decoded;
      decoded.hypotheses = {result.hypothesis};
      if (parts_.confidence) decoded.evidence = {{result.evidence}};
      totals_.confidence_seconds += result.confidence_seconds;
      give(index, static_cast<double>(result.samples) / rate, decoded, 0, result.sections);
    } catch (...) {
      tell_failure(index);
    }
  }

  void fail(size_t index, const std::string& why) {
    tell([&] { observer_.failure(index, recordings_[index].name + ": " + why); });
  }

  /// Gives the observer the result in row `row` of a batch.
  void give(size_t index, double seconds, const Decoded& decoded, size_t row,
            const std::vector<LongSection>& sections) {
    const Hypothesis& hypothesis = decoded.hypotheses[row];
    if (hypothesis.nan) return fail(index, "NaN in the emissions; compute in fp32");
    totals_.audio_seconds += seconds;
    const Transcription result{seconds, hypothesis, transcript(seconds, decoded, row, sections)};
    tell([&] { observer_.result(index, result); });
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
  ClipReader clips_;
  std::optional<Clip> long_clip_;  // the next recording, if it is long
  Totals totals_;
  std::mutex mutex_;                        // guards in_flight_ and calls of the observer
  std::list<std::vector<Clip>> in_flight_;  // batches without a result
};

Transcriber::Transcriber(std::shared_ptr<const AcousticModel> model, const ChooseDecoder& choose,
                         const TranscriberOptions& options)
    : model_(std::move(model)), options_(options), parts_(std::make_unique<Parts>(model_)) {
  const bool gpu = model_->device.is_cuda();
  if (options.batch_size > 0) {
    parts_->batch_size = options.batch_size;
  } else if (gpu) {
    parts_->batch_size = kGpuBatch;
    parts_->batch_seconds = kGpuSeconds;
  }
  parts_->decoder = choose([this](Decoder& decoder) { parts_->pipeline.prepare(decoder, {}); });
  if (options.with_times || options.confidence)
    parts_->confidence.emplace(model_, head_of(*parts_->decoder, *model_), options.confidence);
  parts_->free_bytes = free_memory(model_->device);
}

Transcriber::~Transcriber() = default;

Transcriber::Totals Transcriber::run(const std::vector<Recording>& recordings,
                                     TranscriptionObserver& observer) {
  return Pass(*this, recordings, observer).run();
}

}  // namespace rtfx
