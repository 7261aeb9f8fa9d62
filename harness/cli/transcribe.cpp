#include "harness/cli/transcribe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/registry.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "base/json_file.h"
#include "base/printable.h"
#include "datasets/media.h"
#include "datasets/parallel_audio.h"
#include "harness/cli/clip_reader.h"
#include "harness/cli/transcribing_decoder.h"
#include "harness/cli/transcript_writer.h"
#include "harness/long_audio/long_audio.h"
#include "harness/machine/device.h"
#include "harness/machine/sudden_end.h"
#include "harness/results/journal.h"
#include "harness/run/encoder_memory_check.h"
#include "harness/run/hypothesis_json.h"
#include "harness/run/overlapped_pipeline.h"
#include "models/load_checkpoint.h"

namespace rtfx {
namespace {

using nlohmann::json;

void complain(const TranscribeInput& input, const std::string& what) {
  fmt::print(stderr, "rtfx: error: {}: {}\n", printable(input.name), printable(what));
}

/// What `error` says of the file, by the name that the user knows.
void complain(const TranscribeInput& input, const UserError& error) {
  std::string what = error.what();
  if (error.where() == input.audio.string()) what.replace(0, error.where().size(), input.name);
  fmt::print(stderr, "rtfx: error: {}\n", printable(what));
}

std::optional<ConfidenceOptions> parse_confidence(const TranscribeOptions& options) {
  if (options.confidence_options.empty())
    return options.confidence ? std::optional(ConfidenceOptions()) : std::nullopt;
  const json object = parse_json(options.confidence_options, "--confidence-options",
                                 R"(for example '{"method": "max_prob"}')");
  return confidence_options().fill(JsonView(object, "--confidence-options"));
}

/// The head that finds the decoder's tokens.
Head head_of(const Decoder& decoder, const AcousticModel& model) {
  const Head head = decoder.describe().head;
  if (head != Head::none) return head;
  return model.joint ? Head::transducer : Head::ctc;
}

/// Where it has come to, on a terminal: a line that is written over.
class ProgressLine {
 public:
  explicit ProgressLine(size_t files) : files_(files), shown_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() { clear(); }

  void show(size_t done) const {
    if (shown_ && files_ > 1) fmt::print(stderr, "\r{} of {} files\033[K", done, files_);
  }
  /// Before anything else is printed.
  void clear() const {
    if (shown_ && files_ > 1) fmt::print(stderr, "\r\033[K");
  }

 private:
  size_t files_;
  bool shown_;
};

class Transcriber {
 public:
  Transcriber(const TranscribeOptions& options, const std::vector<TranscribeInput>& files)
      : options_(options),
        confidence_options_(parse_confidence(options)),
        writer_(transcript_format(options.format, "--format"), options.output, files.size() > 1),
        scope_(options.threads, options.device, "--device"),
        progress_(files.size()),
        clips_(files, reading_threads(),
               [this](const TranscribeInput& input) { return read(input); }) {
    const Checkpoint checkpoint = load_checkpoint(options.model, options.att_context_size);
    for (const std::string& notice : checkpoint.notices) {
      fmt::print(stderr, "rtfx: notice: {}: {}\n", printable(options.model.string()),
                 printable(notice));
    }
    decoder_ = named_decoder(options, checkpoint.config);
    model_ =
        AcousticModel::build(checkpoint, scope_.device(), parse_dtypes(options.dtype, "--dtype"));
    if (options.batch_size > 0) {
      batch_size_ = options.batch_size;
    } else if (scope_.device().is_cuda()) {
      batch_size_ = kGpuBatch;
      batch_seconds_ = kGpuBatchSeconds;
    }
    encoder_.emplace(model_, /*graphs=*/false);  // every batch is new, none worth recording
    // Batches overlap on a GPU; on a CPU they would take each other's threads.
    pipeline_.emplace(model_, *encoder_, scope_.device().is_cuda() ? kInFlight : 1);
    const auto prepare = [this](Decoder& decoder) { pipeline_->prepare(decoder, {}); };
    if (decoder_) {
      prepare(*decoder_);
    } else {
      decoder_ = unnamed_decoder(options, *model_, prepare);
    }
    const bool with_times = !options.json && options.format != "txt";
    if (with_times || confidence_options_)
      confidence_.emplace(model_, head_of(*decoder_, *model_), confidence_options_);
    cuts_long_files_ = decoder_->describe().streams;
    free_ = free_memory(scope_.device());
  }

  /// All files, batch by batch; one that fails costs its batch, and nothing else. What was done is
  /// said on standard error. Returns the number of files that failed.
  size_t run() {
    const auto begin = std::chrono::steady_clock::now();
    while (clips_.more()) {
      pipeline_->run(
          *decoder_, [this](size_t, BatchInFlight& batch) { return read_batch(batch); },
          [this](size_t, BatchInFlight& batch) { print_batch(batch); }, {},
          confidence_ ? &*confidence_ : nullptr);
      if (long_file_) transcribe_long();
    }
    progress_.clear();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print(
        stderr,
        "rtfx: {} of {} files, {:.1f} s of audio in {:.2f} s, reading included: RTFx {:.1f}{}\n",
        clips_.taken() - failed_, clips_.taken(), audio_seconds_, seconds, audio_seconds_ / seconds,
        confidence_options_ ? fmt::format("; {:.2f} s of it for confidence", confidence_seconds_)
                            : "");
    return failed_;
  }

 private:
  static constexpr size_t kInFlight = 6;
  static constexpr int64_t kChunksAtOnce = 8;  // of long audio
  /// What makes a GPU busy, and bounds the memory of files of many minutes.
  static constexpr int64_t kGpuBatch = 32;
  static constexpr double kGpuBatchSeconds = 1200;  // with the padding

  /// On a CPU, the model needs the threads.
  size_t reading_threads() const { return scope_.device().is_cuda() ? 8 : 2; }

  /// By any thread. Throws what is wrong with the file.
  Clip read(const TranscribeInput& input) const {
    // By the header first: reading an hour takes 0.2 GB too.
    const double seconds = media_seconds(input.audio);
    if (is_long(seconds)) return {&input, {}, true};
    require_memory(1, seconds, input.name);
    Clip clip{&input, read_media(input.audio)};
    clip.is_long = is_long(clip.audio.seconds());
    if (!clip.is_long) require_memory(1, clip.audio.seconds(), input.name);
    return clip;
  }

  /// The next files that can be read, as many as make a batch; false: there are none, or a long one
  /// comes first.
  bool read_batch(BatchInFlight& batch) {
    std::vector<Clip> clips;
    double longest = 0;
    while (clips_.more() && static_cast<int64_t>(clips.size()) < batch_size_ && !long_file_) {
      const TranscribeInput& input = clips_.file();
      say([&] { progress_.show(clips_.taken()); });
      try {
        Clip clip = clips_.next();
        if (clip.is_long) {
          long_file_ = std::move(clip);
          break;
        }
        const double seconds = std::max(longest, clip.audio.seconds());
        if (!clips.empty() && seconds * static_cast<double>(clips.size() + 1) > batch_seconds_) {
          clips_.put_back(std::move(clip));
          break;
        }
        say([&] {
          for (const std::string& notice : clip.audio.notices) {
            progress_.clear();
            fmt::print(stderr, "rtfx: notice: {}: {}\n", printable(input.name), printable(notice));
          }
        });
        longest = seconds;
        clips.push_back(std::move(clip));
      } catch (const UserError& e) {
        say([&] {
          progress_.clear();
          complain(input, e);
          ++failed_;
        });
      } catch (...) {
        say([&] {
          progress_.clear();
          complain(input, describe_failure());
          ++failed_;
        });
      }
    }
    if (clips.empty()) return false;
    set_under_way(fmt::format("rtfx transcribe, {}{}", clips.front().input->name,
                              clips.size() == 1 ? "" : " and those of its batch"));
    const std::lock_guard lock(mutex_);
    const std::vector<Clip>& kept = on_the_way_.emplace_back(std::move(clips));
    for (const Clip& clip : kept) batch.clips.push_back(&clip.audio.samples);
    require_memory(static_cast<int64_t>(kept.size()), longest, "--batch-size");
    return true;
  }

  bool is_long(double seconds) const { return seconds > options_.long_above && cuts_long_files_; }

  /// Block by block, but for what only ffmpeg reads, which is in memory.
  void transcribe_long() {
    Clip clip = std::move(*long_file_);
    long_file_.reset();
    set_under_way("rtfx transcribe, " + clip.input->name);
    try {
      LongAudioOptions cuts;
      cuts.chunk_seconds = options_.chunk;
      cuts.context_seconds = options_.context;
      cuts.batch = std::max<int64_t>(batch_size_, kChunksAtOnce);
      LongAudio audio(cuts, *model_, *encoder_, *decoder_, confidence_ ? &*confidence_ : nullptr);
      std::optional<ParallelAudio> file;
      ChunkSource source = source_of(clip.audio.samples);
      if (clip.audio.samples.empty()) {
        file.emplace(clip.input->audio, static_cast<int>(model_->config.features.sample_rate),
                     reading_threads());
        clip.audio.notices = file->notices();
        source = {[&](size_t first, size_t count) { return file->read(first, count); },
                  file->threads()};
      }
      const LongResult result = audio.transcribe(source, [this](double seconds) {
        if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:.0f} s\033[K", seconds);
      });
      progress_.clear();
      for (const auto& notices : {clip.audio.notices, result.notices})
        for (const std::string& notice : notices)
          fmt::print(stderr, "rtfx: notice: {}: {}\n", printable(clip.input->name),
                     printable(notice));
      const double seconds = static_cast<double>(result.samples) /
                             static_cast<double>(model_->config.features.sample_rate);
      Decoded decoded;
      decoded.hypotheses = {result.hypothesis};
      if (confidence_) decoded.evidence = {{result.evidence}};
      confidence_seconds_ += result.confidence_seconds;
      print_result(*clip.input, seconds, decoded, 0, result.sections);
    } catch (const UserError& e) {
      complain(*clip.input, e);
      ++failed_;
    } catch (...) {
      complain(*clip.input, describe_failure());
      ++failed_;
    }
  }

  void print_batch(BatchInFlight& batch) {
    const std::lock_guard lock(mutex_);
    const std::vector<Clip>& clips = on_the_way_.front();
    progress_.clear();
    if (batch.failure) {
      try {
        std::rethrow_exception(batch.failure);
      } catch (...) {
        const std::string why = describe_failure();
        for (const Clip& clip : clips) complain(*clip.input, why);
      }
      failed_ += clips.size();
    } else {
      confidence_seconds_ += batch.times.of(Region::confidence);
      for (size_t i = 0; i < clips.size(); ++i)
        print_result(*clips[i].input, clips[i].audio.seconds(), batch.decoded, i);
    }
    on_the_way_.pop_front();
  }

  /// One thread at a time.
  template <class Work>
  void say(const Work& work) {
    const std::lock_guard lock(mutex_);
    work();
  }

  void require_memory(int64_t rows, double seconds, const std::string& where) const {
    const auto rate = static_cast<double>(model_->config.features.sample_rate);
    require_encoder_memory(*model_, rows, static_cast<int64_t>(seconds * rate), free_, where);
  }

  Transcript transcript(double seconds, const Decoded& decoded, size_t row,
                        const std::vector<LongSection>& sections) const {
    const Hypothesis& hypothesis = decoded.hypotheses[row];
    const auto evidence = [&](size_t entry) {
      return decoded.evidence.empty() ? TokenEvidence() : decoded.evidence[row][entry];
    };
    const TranscriptRules rules{
        .frame_seconds = model_->config.frame_seconds(),
        .audio_seconds = seconds,
        .pause = options_.pause,
        .aggregation = confidence_options_ ? confidence_options_->aggregation : "min"};
    if (options_.format == "txt") {
      Transcript text;
      text.text = model_->tokenizer->text(hypothesis.tokens);
      return text;
    }
    Transcript best = transcript_of(hypothesis, evidence(0), *model_->tokenizer, rules);
    for (size_t i = 0; i < hypothesis.nbest.size(); ++i) {
      best.alternatives.push_back(
          transcript_of(hypothesis.nbest[i], evidence(i + 1), *model_->tokenizer, rules));
    }
    for (const LongSection& section : sections) {
      const double start = static_cast<double>(section.first) * rules.frame_seconds;
      if (!best.sections.empty()) best.sections.back().end = start;
      best.sections.push_back({start, seconds, {}});
      for (const Hypothesis& entry : section.nbest)
        best.sections.back().alternatives.push_back(
            transcript_of(entry, {}, *model_->tokenizer, rules));
    }
    return best;
  }

  void print_result(const TranscribeInput& input, double seconds, const Decoded& decoded,
                    size_t row, const std::vector<LongSection>& sections = {}) {
    const Hypothesis& hypothesis = decoded.hypotheses[row];
    if (hypothesis.nan) {
      ++failed_;
      return complain(input, "NaN in the emissions; try --dtype fp32");
    }
    audio_seconds_ += seconds;
    if (options_.json) {
      json line = to_json(hypothesis, *model_->tokenizer);
      line["file"] = input.name;
      fmt::print("{}", to_line(line));
      std::fflush(stdout);
      return;
    }
    try {
      writer_.put(input, {.file = input.name,
                          .seconds = seconds,
                          .transcript = transcript(seconds, decoded, row, sections),
                          .reference = input.reference.value_or(""),
                          .has_reference = input.reference.has_value(),
                          .with_tokens = options_.tokens});
    } catch (const UserError& e) {
      ++failed_;
      complain(input, e);
    }
  }

  const TranscribeOptions& options_;
  const std::optional<ConfidenceOptions> confidence_options_;
  TranscriptWriter writer_;
  DeviceScope scope_;
  std::unique_ptr<Decoder> decoder_;
  std::shared_ptr<const AcousticModel> model_;
  std::optional<RecordedEncoder> encoder_;
  std::optional<OverlappedPipeline> pipeline_;
  std::optional<Confidence> confidence_;  // for words' times or for itself
  bool cuts_long_files_ = false;
  int64_t free_ = 0;  // bytes, before the first batch: only one at a time is encoded
  ProgressLine progress_;
  ClipReader clips_;
  int64_t batch_size_ = 1;
  double batch_seconds_ = std::numeric_limits<double>::infinity();  // with the padding
  std::optional<Clip> long_file_;  // the next, without samples if it can be read block by block

  std::mutex mutex_;                         // of what follows, and of what is printed
  std::list<std::vector<Clip>> on_the_way_;  // read, and not printed
  size_t failed_ = 0;
  double audio_seconds_ = 0;
  double confidence_seconds_ = 0;
};

}  // namespace

int transcribe(const TranscribeOptions& options) {
  for (const std::string& plugin : options.plugins) load_plugin(plugin);
  bool listed = true;
  ScratchFolder scratch;
  const auto files = transcribe_inputs(options.files, scratch, [&](const UserError& e) {
    fmt::print(stderr, "rtfx: error: {}\n", printable(e.what()));
    listed = false;
  });
  return Transcriber(options, files).run() == 0 && listed ? kOk : kFailed;
}

}  // namespace rtfx
