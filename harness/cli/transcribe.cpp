#include "harness/cli/transcribe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "algorithms/registry.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "base/json_file.h"
#include "base/printable.h"
#include "datasets/audio.h"
#include "datasets/audio_files.h"
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

json parse_options(const std::string& text) {
  constexpr const char* kExample = R"(for example '{"window": 8}')";
  json options = parse_json(text, "--options", kExample);
  if (!options.is_object()) throw UserError("--options", text + " is not a JSON object", kExample);
  return options;
}

void complain(const std::filesystem::path& file, const std::string& what) {
  fmt::print(stderr, "rtfx: error: {}: {}\n", printable(file.string()), printable(what));
}

/// Folders become the audio files in them; anything else stays, to be complained about when it is
/// its turn. `complain` hears of folders that have none.
std::vector<std::filesystem::path> expand(const std::vector<std::filesystem::path>& files,
                                          const std::function<void(const UserError&)>& complain) {
  std::vector<std::filesystem::path> all;
  for (const auto& file : files) {
    std::error_code error;  // of a file that cannot be looked at: reading it says why
    if (!std::filesystem::is_directory(file, error)) {
      all.push_back(file);
      continue;
    }
    try {
      for (const Utterance& utterance : list_audio_files({file.string()}))
        all.push_back(utterance.audio);
    } catch (const UserError& e) {
      complain(e);
    }
  }
  return all;
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

struct Clip {
  std::filesystem::path file;
  Audio audio;
};

class Transcriber {
 public:
  Transcriber(const TranscribeOptions& options, std::vector<std::filesystem::path> files)
      : options_(options),
        files_(std::move(files)),
        scope_(options.threads, options.device, "--device"),
        progress_(files_.size()) {
    const Checkpoint checkpoint = load_checkpoint(options.model, options.att_context_size);
    for (const std::string& notice : checkpoint.notices) {
      fmt::print(stderr, "rtfx: notice: {}: {}\n", printable(options.model.string()),
                 printable(notice));
    }
    const std::string fallback = checkpoint.config.has_transducer ? "label_looping" : "ctc_greedy";
    decoder_ = make_decoder(options.decoder.empty() ? fallback : options.decoder,
                            parse_options(options.decoder_options), "--decoder", checkpoint.config);
    model_ =
        AcousticModel::build(checkpoint, scope_.device(), parse_dtypes(options.dtype, "--dtype"));
    encoder_.emplace(model_, /*graphs=*/false);  // every batch is new, none worth recording
    // Batches overlap on a GPU; on a CPU they would take each other's threads.
    pipeline_.emplace(model_, *encoder_, scope_.device().is_cuda() ? kInFlight : 1);
    pipeline_->prepare(*decoder_, {});
    free_ = free_memory(scope_.device());
  }

  /// All files, batch by batch; one that fails costs its batch, and nothing else. What was done is
  /// said on standard error. Returns the number of files that failed.
  size_t run() {
    const auto begin = std::chrono::steady_clock::now();
    pipeline_->run(
        *decoder_, [this](size_t, BatchInFlight& batch) { return read_batch(batch); },
        [this](size_t, BatchInFlight& batch) { print_batch(batch); });
    progress_.clear();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print(
        stderr,
        "rtfx: {} of {} files, {:.1f} s of audio in {:.2f} s, reading included: RTFx {:.1f}\n",
        taken_ - failed_, taken_, audio_seconds_, seconds, audio_seconds_ / seconds);
    return failed_;
  }

 private:
  static constexpr size_t kInFlight = 6;

  /// The next files that can be read, as many as make a batch; false: there are none.
  bool read_batch(BatchInFlight& batch) {
    std::vector<Clip> clips;
    while (taken_ < files_.size() && static_cast<int64_t>(clips.size()) < options_.batch_size) {
      const std::filesystem::path& file = files_[taken_];
      say([&] { progress_.show(taken_); });
      ++taken_;
      try {
        // By the header first: reading an hour takes 0.2 GB too.
        require_memory(1, audio_seconds(file), file.string());
        Clip clip{file, read_audio(file)};
        say([&] {
          for (const std::string& notice : clip.audio.notices) {
            progress_.clear();
            fmt::print(stderr, "rtfx: notice: {}: {}\n", printable(file.string()),
                       printable(notice));
          }
        });
        require_memory(1, clip.audio.seconds(), file.string());
        clips.push_back(std::move(clip));
      } catch (const UserError& e) {
        say([&] {
          progress_.clear();
          fmt::print(stderr, "rtfx: error: {}\n", printable(e.what()));
          ++failed_;
        });
      } catch (...) {
        say([&] {
          progress_.clear();
          complain(file, describe_failure());
          ++failed_;
        });
      }
    }
    if (clips.empty()) return false;
    set_under_way(fmt::format("rtfx transcribe, {}{}", clips.front().file.string(),
                              clips.size() == 1 ? "" : " and those of its batch"));
    double longest = 0;
    const std::lock_guard lock(mutex_);
    const std::vector<Clip>& kept = on_the_way_.emplace_back(std::move(clips));
    for (const Clip& clip : kept) {
      batch.clips.push_back(&clip.audio.samples);
      longest = std::max(longest, clip.audio.seconds());
    }
    require_memory(static_cast<int64_t>(kept.size()), longest, "--batch-size");
    return true;
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
        for (const Clip& clip : clips) complain(clip.file, why);
      }
      failed_ += clips.size();
    } else {
      for (size_t i = 0; i < clips.size(); ++i) print_result(clips[i], batch.decoded, i);
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

  void print_result(const Clip& clip, const Decoded& decoded, size_t row) {
    const Hypothesis& hypothesis = decoded.hypotheses[row];
    if (hypothesis.nan) {
      ++failed_;
      return complain(clip.file, "NaN in the emissions; try --dtype fp32");
    }
    audio_seconds_ += clip.audio.seconds();
    if (options_.json) {
      json line = to_json(hypothesis, *model_->tokenizer);
      line["file"] = clip.file.string();
      fmt::print("{}", to_line(line));
    } else if (files_.size() > 1) {
      fmt::print("{}: {}\n", printable(clip.file.string()), printable(decoded.texts[row]));
    } else {
      fmt::print("{}\n", printable(decoded.texts[row]));
    }
    std::fflush(stdout);
  }

  const TranscribeOptions& options_;
  std::vector<std::filesystem::path> files_;
  DeviceScope scope_;
  std::unique_ptr<Decoder> decoder_;
  std::shared_ptr<const AcousticModel> model_;
  std::optional<RecordedEncoder> encoder_;
  std::optional<OverlappedPipeline> pipeline_;
  int64_t free_ = 0;  // bytes, before the first batch: only one at a time is encoded
  ProgressLine progress_;
  size_t taken_ = 0;

  std::mutex mutex_;                         // of what follows, and of what is printed
  std::list<std::vector<Clip>> on_the_way_;  // read, and not printed
  size_t failed_ = 0;
  double audio_seconds_ = 0;
};

}  // namespace

int transcribe(const TranscribeOptions& options) {
  for (const std::string& plugin : options.plugins) load_plugin(plugin);
  bool listed = true;
  const auto files = expand(options.files, [&](const UserError& e) {
    fmt::print(stderr, "rtfx: error: {}\n", printable(e.what()));
    listed = false;
  });
  return Transcriber(options, files).run() == 0 && listed ? kOk : kFailed;
}

}  // namespace rtfx
