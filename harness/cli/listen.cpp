#include "harness/cli/listen.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "algorithms/decoder.h"
#include "algorithms/foreign_code.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "datasets/audio.h"
#include "harness/cli/live_lines.h"
#include "harness/cli/open_model.h"
#include "harness/cli/transcript_printer.h"
#include "harness/results/journal.h"
#include "models/streaming/cached_encoder.h"
#include "speech/pipeline/default_decoder.h"
#include "speech/pipeline/pipeline.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"
#include "speech/streams/speech_streams.h"
#include "speech/transcript/formats.h"
#include "speech/transcript/transcript.h"

namespace rtfx {
namespace {

constexpr int kWaitMilliseconds = 50;  // wait for audio before signals are checked

/// Returns the end of a text, where it is new. It fits into one row of the terminal, since a
/// carriage return does not lead back to the row before.
std::string live_line(std::string_view text) {
  constexpr size_t kLeast = 1, kMost = 76;  // columns
  const size_t columns = terminal_columns().value_or(kMost + 1);
  return shortened(text, std::clamp(columns, kLeast + 1, kMost + 1) - 1);
}

/// The audio of a source, and the process that makes it, if there is one.
class Source {
 public:
  explicit Source(const ListenOptions& options) {
    if (options.microphone) {
      if (find_program("arecord", {}).empty()) {
        throw UserError("--microphone", "there is no arecord",
                        "install alsa-utils, or pipe a recording: ... | rtfx stream --model M -");
      }
      pipe_.reset(popen("exec arecord -q -t wav -f S16_LE -r 16000 -c 1 -", "r"));
      if (!pipe_) throw UserError("--microphone", "arecord does not start", "try it by hand");
      reader_.emplace(fileno(pipe_.get()), "arecord", 0);
    } else if (options.source == "-") {
      if (isatty(STDIN_FILENO) != 0)
        throw UserError("-", "standard input is a terminal", "pipe audio into it");
      // Waits until a file's header arrives, or a signal.
      for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, kWaitMilliseconds) <= 0;)
        check_interrupt();
      reader_.emplace(STDIN_FILENO, "standard input", options.raw_rate);
    } else {
      reader_.emplace(options.source);
    }
  }

  AudioReader& reader() { return *reader_; }

 private:
  struct Close {
    void operator()(std::FILE* pipe) const { pclose(pipe); }
  };
  std::unique_ptr<std::FILE, Close> pipe_;
  std::optional<AudioReader> reader_;
};

class Listener {
 public:
  explicit Listener(const ListenOptions& options)
      : options_(options), scope_(options.threads, options.device, "--device") {
    const nlohmann::json asked = parse_decoder_options(options.decoder_options);
    const auto [checkpoint, dtypes] = open_model(options, scope_.device());
    EndpointRules rules = endpoint_rules(checkpoint);
    utterances_end_ = rules.any();
    const std::string without_caches = why_not_cache_aware(checkpoint.config);
    StreamOptions streams;
    if (options.buffer || !without_caches.empty()) {
      streams.buffer = options.buffer.value_or(BufferSeconds{});
      const std::string why = without_caches.empty()
                                  ? "as --buffer asks"
                                  : "since the model cannot keep caches: " + without_caches;
      print_notice(
          fmt::format("text comes about {:g} s late: chunks of {:g} s wait for {:g} s "
                      "behind them, with {:g} s before, {}",
                      streams.buffer->chunk + streams.buffer->right, streams.buffer->chunk,
                      streams.buffer->right, streams.buffer->left, why));
    }
    if (!options.decoder.empty()) {
      find_decoder(options.decoder, "--decoder");  // its error is not one of the options
      decoder_ = make_decoder(options.decoder, asked, "--options", checkpoint.config);
    }
    model_ = AcousticModel::build(checkpoint, scope_.device(), dtypes);
    const auto prepare = [this](Decoder& decoder) {
      call_decoder(decoder, {}, [&] { decoder.prepare(model_, {1, 0}); });
    };
    if (decoder_) {
      prepare(*decoder_);
    } else {
      decoder_ = default_greedy(*model_, asked, "--options", prepare);
    }
    frame_seconds_ = model_->config.frame_seconds();
    speech_.emplace(model_, *decoder_, streams, std::move(rules), options.decode_again);
    stream_ = speech_->open();
  }

  /// Returns whether an interrupt ended it before the audio did.
  bool run(AudioReader& reader) {
    auto print_notices = [&, printed = size_t{0}]() mutable {
      for (; printed < reader.notices().size(); ++printed) print_notice(reader.notices()[printed]);
    };
    print_notices();
    const auto rate = static_cast<size_t>(reader.sample_rate());
    std::exception_ptr failure;
    bool is_stopped = false;
    for (bool more = true; more;) {
      std::vector<float> block;
      // However the audio ends, the audio so far is still transcribed.
      try {
        do check_interrupt();
        while (!reader.wait(kWaitMilliseconds));
        block = reader.read(rate / 20);
      } catch (const Interrupted&) {
        is_stopped = true;
      } catch (const UserError&) {
        failure = std::current_exception();
        if (heard_ == 0) throw;
      }
      more = !block.empty();
      more ? speech_->push(stream_, block) : speech_->finish(stream_);
      heard_ += static_cast<double>(block.size()) / static_cast<double>(rate);
      for (auto updates = speech_->step(); !updates.empty(); updates = speech_->step())
        for (const SpeechUpdate& update : updates) show(update);
    }
    print_notices();
    const double seconds = heard_;
    const double work =
        speech_->encoder_seconds() + speech_->search_seconds() + speech_->detector_seconds();
    print_message("rtfx: {:.1f} s of audio, worked on for {:.2f} s: RTFx {:.1f}\n", seconds, work,
                  seconds / work);
    if (failure) std::rethrow_exception(failure);
    return is_stopped;
  }

 private:
  EndpointRules endpoint_rules(const Checkpoint& checkpoint) const {
    EndpointRules rules;
    if (options_.pause > 0)
      rules.pause = pause_frames(options_.pause, checkpoint.config.frame_seconds());
    rules.tokens = find_end_tokens(*checkpoint.tokenizer, options_.end_tokens, "--end-token");
    rules.silence = options_.vad_silence;
    if (options_.vad.empty()) return rules;
    rules.detector = std::make_shared<const VoiceDetector>(
        options_.vad, checkpoint.config.features.sample_rate, "--vad");
    return rules;
  }

  void show(const SpeechUpdate& update) {
    tell_again(update);
    const Hypothesis& best = update.result.best;
    if (best.nan)
      throw UserError("the search", "found " + nan_problem(*decoder_), remedy_for_nan(*model_));
    const std::string text = text_of(best, *model_->tokenizer);
    if (options_.json && !utterances_end_) return show_words(update);
    const bool is_told = lines_.take_utterance(text, update.ended());
    if (options_.json) {
      if (!is_told) return;
      const auto [start, end] = spoken_time(update, frame_seconds_, heard_);
      print_line(update.ended(), start, end, text, ended_by(update, *model_->tokenizer));
    } else if (update.ended()) {
      if (terminal_) fmt::print("\r\033[K");
      if (!text.empty()) fmt::print("{}\n", printable(text));
    } else if (terminal_ && is_told) {
      fmt::print("\r\033[K{}", live_line(printable(text)));
    }
    flush_output();
  }

  /// `ended_by` is empty for lines that are not the end of an utterance.
  static void print_line(bool final, double start, double end, const std::string& text,
                         const std::string& ended_by = {},
                         const std::vector<DecodedAgain>& again = {}) {
    const auto rounded = [](double seconds) { return std::round(1000 * seconds) / 1000; };
    nlohmann::json line = {
        {"final", final}, {"start", rounded(start)}, {"end", rounded(end)}, {"text", text}};
    if (!ended_by.empty()) line["ended_by"] = ended_by;
    if (!again.empty()) line["decoded_again"] = to_json(again);
    fmt::print("{}", to_line(line));
    flush_output();
  }

  /// Reports parts that were decoded again, once their result is known: a notice, and a line of
  /// JSON without text.
  void tell_again(const SpeechUpdate& update) {
    for (const WordlessPart& part : update.again) {
      const auto seconds = [&](size_t frame) {
        return std::min(static_cast<double>(frame) * frame_seconds_, heard_);
      };
      const DecodedAgain again{seconds(part.blocks.begin), seconds(part.blocks.end), part.words,
                               part.decodes};
      if (terminal_) fmt::print("\r\033[K");
      flush_output();
      print_notice(notice_of(again));
      if (options_.json) print_line(true, again.start, again.end, "", {}, {again});
    }
  }

  /// Prints the words so far. Without a rule, an utterance lasts as long as its stream. There,
  /// words that stay get a final line, and other words get a line that is not final. So no line
  /// repeats all words before it.
  void show_words(const SpeechUpdate& update) {
    TranscriptRules rules;
    rules.frame_seconds = frame_seconds_;
    rules.audio_seconds = heard_;
    const std::vector<TimedWord> words =
        transcript_of(update.result.best, {}, *model_->tokenizer, rules).words;
    const size_t before = lines_.settled();
    const size_t settled =
        update.ended() ? words.size()
                       : std::max(before, settled_words(words, before, update.result.stable));
    for (const LiveLine& line : lines_.take_words(words, settled))
      print_line(line.final, line.start, line.end, line.text);
  }

  const ListenOptions& options_;
  DeviceScope scope_;
  std::unique_ptr<Decoder> decoder_;
  std::shared_ptr<const AcousticModel> model_;
  std::optional<SpeechStreams> speech_;
  int64_t stream_ = 0;
  double frame_seconds_ = 0;
  double heard_ = 0;             // seconds of audio so far
  bool utterances_end_ = false;  // before the stream ends
  LiveLines lines_;
  bool terminal_ = isatty(STDOUT_FILENO) != 0;
};

}  // namespace

int listen(const ListenOptions& options) {
  const InterruptWatch watch;
  Listener listener(options);
  Source source(options);
  const bool is_stopped = listener.run(source.reader());
  // An interrupt is how a user ends a recording. The audio of a file ends by itself.
  const bool is_file = !options.microphone && options.source != "-";
  if (!is_stopped || !is_file) return kOk;
  print_message("rtfx: interrupted; the text of the rest of {} is missing\n",
                printable(options.source));
  return kInterrupted;
}

}  // namespace rtfx
