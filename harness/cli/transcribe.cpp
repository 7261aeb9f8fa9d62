#include "harness/cli/transcribe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
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
#include "harness/run/pipeline.h"
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
  Transcriber(const TranscribeOptions& options, size_t files)
      : options_(options),
        scope_(options.threads, options.device, "--device"),
        clock_(scope_.device()),
        progress_(files),
        name_files_(files > 1) {
    const Checkpoint checkpoint = load_checkpoint(options.model, options.att_context_size);
    for (const std::string& notice : checkpoint.notices) {
      fmt::print(stderr, "rtfx: notice: {}: {}\n", printable(options.model.string()),
                 printable(notice));
    }
    const std::string fallback = checkpoint.config.has_transducer ? "label_looping" : "ctc_greedy";
    decoder_ = make_decoder(options.decoder.empty() ? fallback : options.decoder,
                            parse_options(options.decoder_options), "--decoder", checkpoint.config);
    model_ =
        AcousticModel::build(checkpoint, scope_.device(), parse_dtype(options.dtype, "--dtype"));
    decoder_->prepare(model_, {});
    encoder_.emplace(model_, /*graphs=*/false);  // every batch is new, none worth recording
    begin_ = std::chrono::steady_clock::now();
  }

  /// Reads the file, and transcribes those that wait when there are enough for a batch.
  void take(const std::filesystem::path& file) {
    progress_.show(taken_++);
    try {
      // By the header first: reading an hour takes 0.2 GB too.
      require_memory(file, audio_seconds(file));
      Clip clip{file, read_audio(file)};
      for (const std::string& notice : clip.audio.notices) {
        progress_.clear();
        fmt::print(stderr, "rtfx: notice: {}: {}\n", printable(file.string()), printable(notice));
      }
      require_memory(file, clip.audio.seconds());
      waiting_.push_back(std::move(clip));
    } catch (const UserError& e) {
      progress_.clear();
      fmt::print(stderr, "rtfx: error: {}\n", printable(e.what()));
      ++failed_;
    }
    if (static_cast<int64_t>(waiting_.size()) == options_.batch_size) flush();
  }

  /// Transcribes the files that wait; one that fails costs its batch, and nothing else.
  void flush() {
    if (waiting_.empty()) return;
    const std::vector<Clip> clips = std::exchange(waiting_, {});
    progress_.show(taken_);
    try {
      const Decoded decoded = decode(clips);
      progress_.clear();
      for (size_t i = 0; i < clips.size(); ++i) print_result(clips[i], decoded, i);
    } catch (...) {
      const std::string why = describe_failure();
      progress_.clear();
      for (const Clip& clip : clips) complain(clip.file, why);
      failed_ += clips.size();
    }
  }

  /// After the last file: what was done, on standard error. Returns the number of files that
  /// failed.
  size_t finish() {
    flush();
    progress_.clear();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    fmt::print(
        stderr,
        "rtfx: {} of {} files, {:.1f} s of audio in {:.2f} s, reading included: RTFx {:.1f}\n",
        taken_ - failed_, taken_, audio_seconds_, seconds, audio_seconds_ / seconds);
    return failed_;
  }

 private:
  void require_memory(const std::filesystem::path& file, double seconds) const {
    const auto rate = static_cast<double>(model_->config.features.sample_rate);
    require_encoder_memory(*model_, 1, static_cast<int64_t>(seconds * rate),
                           free_memory(scope_.device()), file.string());
  }

  Decoded decode(const std::vector<Clip>& batch) {
    set_under_way(fmt::format("rtfx transcribe, {}{}", batch.front().file.string(),
                              batch.size() == 1 ? "" : " and those of its batch"));
    Clips clips;
    int64_t longest = 0;
    for (const Clip& clip : batch) {
      clips.push_back(&clip.audio.samples);
      longest = std::max(longest, static_cast<int64_t>(clip.audio.samples.size()));
    }
    require_encoder_memory(*model_, static_cast<int64_t>(batch.size()), longest,
                           free_memory(scope_.device()), "--batch-size");
    RegionTimes times;
    const ScopedRange range(batch_size(*model_, clips));
    const EncodedBatch encoded = encode_batch(*model_, *encoder_, clips, clock_, times);
    return decode_batch(*decoder_, *model_, encoded, clock_, times, /*sync_debug=*/false);
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
    } else if (name_files_) {
      fmt::print("{}: {}\n", printable(clip.file.string()), printable(decoded.texts[row]));
    } else {
      fmt::print("{}\n", printable(decoded.texts[row]));
    }
    std::fflush(stdout);
  }

  const TranscribeOptions& options_;
  DeviceScope scope_;
  RegionClock clock_;
  std::unique_ptr<Decoder> decoder_;
  std::shared_ptr<const AcousticModel> model_;
  std::optional<RecordedEncoder> encoder_;
  ProgressLine progress_;
  bool name_files_;
  std::vector<Clip> waiting_;
  size_t taken_ = 0, failed_ = 0;
  double audio_seconds_ = 0;
  std::chrono::steady_clock::time_point begin_;  // of the first file
};

}  // namespace

int transcribe(const TranscribeOptions& options) {
  for (const std::string& plugin : options.plugins) load_plugin(plugin);
  bool listed = true;
  const auto files = expand(options.files, [&](const UserError& e) {
    fmt::print(stderr, "rtfx: error: {}\n", printable(e.what()));
    listed = false;
  });
  Transcriber transcriber(options, files.size());
  for (const auto& file : files) transcriber.take(file);
  return transcriber.finish() == 0 && listed ? kOk : kFailed;
}

}  // namespace rtfx
