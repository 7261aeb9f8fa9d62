// The functions of library.h for speech that comes in pieces.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "algorithms/decoder.h"
#include "base/json.h"
#include "models/streaming/cached_encoder.h"
#include "python/handles.h"
#include "python/library.h"
#include "speech/streams/speech_streams.h"
#include "speech/transcript/transcript.h"

using nlohmann::json;

namespace rtfx {

/// A stream that is open. Streams of encoder frames use none of this.
struct OpenStream {
  double heard = 0;                   // seconds of audio so far
  std::vector<DecodedAgain> again;    // parts of the stream that were decoded again
  std::vector<EndedUtterance> ended;  // utterances that no call has returned yet
};

}  // namespace rtfx

struct rtfx_streams {
  std::shared_ptr<const rtfx::AcousticModel> model;
  std::shared_ptr<rtfx::Decoder> decoder;
  // One of the two exists: the first for samples, the second for encoder frames.
  std::unique_ptr<rtfx::SpeechStreams> speech;
  std::unique_ptr<rtfx::Streams> search;
  std::vector<std::string> notices;
  std::map<int64_t, rtfx::OpenStream> open;
  rtfx::ViewMemory memory;  // holds the last call's results

  /// Calls `work` with the one that exists. Their functions have the same names.
  template <class Work>
  auto with(const Work& work) {
    return speech ? work(*speech) : work(*search);
  }
};

namespace rtfx {
namespace {

BiasRequest parse_request(const json& request) {
  const JsonView view(request, "open");
  view.check_keys({"allowed", "boost"});
  BiasRequest asked{{}, {}, "allowed"};
  if (const auto boost = view.find("boost")) asked.phrases = parse_phrases(*boost);
  if (const auto allowed = view.find("allowed")) {
    asked.allowed.emplace();
    if (allowed->value() == json::array()) return asked;  // allows all
    for (const JsonView& one : allowed->elements()) asked.allowed->push_back(one.text());
  }
  return asked;
}

EndpointRules endpoint_rules(const rtfx_endpoint_rules& given, const AcousticModel& model) {
  EndpointRules rules;
  if (require_seconds(given.pause, "pause", 0, kMostPauseSeconds) > 0)
    rules.pause = pause_frames(given.pause, model.config.frame_seconds());
  if (given.end_tokens != nullptr) {
    const std::vector<std::string> names(given.end_tokens,
                                         given.end_tokens + given.end_token_count);
    rules.tokens = find_end_tokens(*model.tokenizer, names, "end_tokens");
  }
  rules.silence =
      require_seconds(given.vad_silence, "vad_silence", kLeastSilenceSeconds, kMostPauseSeconds);
  if (given.vad != nullptr) {
    rules.detector =
        std::make_shared<const VoiceDetector>(given.vad, model.config.features.sample_rate, "vad");
  }
  return rules;
}

/// Fills partials[i] with the text so far of stream numbers[i], and its utterances that have ended.
void view_partials(rtfx_streams& streams, std::span<const int64_t> numbers,
                   rtfx_partial* partials) {
  const Tokenizer& tokenizer = *streams.model->tokenizer;
  streams.memory = {};
  for (size_t i = 0; i < numbers.size(); ++i) {
    PartialResult partial = streams.with([&](auto& s) { return s.partial(numbers[i]); });
    if (streams.speech) move_frames(partial.best, streams.speech->first(numbers[i]));
    partials[i] = streams.memory.view(std::move(partial), tokenizer);
    streams.memory.view(streams.open.at(numbers[i]).ended, tokenizer, partials[i].ended_count,
                        partials[i].ended);
  }
  // Nothing can fail any more. If the call fails before, the next one returns them.
  for (const int64_t number : numbers) streams.open.at(number).ended.clear();
}

/// Keeps an utterance that a rule has ended, unless it has no text. One that a NaN reached is kept,
/// since it is an error for the caller. Times are at most `audio_seconds`.
void keep_utterance(OpenStream& open, SpeechUpdate update, const AcousticModel& model,
                    double audio_seconds) {
  const Tokenizer& tokenizer = *model.tokenizer;
  Hypothesis& best = update.result.best;
  if (!best.nan && text_of(best, tokenizer).empty()) return;
  TranscriptRules rules;
  rules.frame_seconds = model.config.frame_seconds();
  rules.audio_seconds = audio_seconds;
  const auto [start, end] = spoken_time(update, rules.frame_seconds, audio_seconds);
  move_frames(best, update.first);
  std::vector<TimedWord> words;
  if (!best.nan) words = transcript_of(best, {}, tokenizer, rules).words;
  open.ended.push_back(
      {std::move(best), std::move(words), start, end, ended_by(update, tokenizer)});
}

/// Encodes and searches all that is ready. Each stream keeps its utterances that end, until the
/// next call for it. Returns the last utterance of stream `ending`, if that ends.
Hypothesis work(rtfx_streams& streams, int64_t ending) {
  Hypothesis result;
  SpeechStreams& speech = *streams.speech;
  const double frame = streams.model->config.frame_seconds();
  for (auto updates = speech.step(false); !updates.empty(); updates = speech.step(false)) {
    for (SpeechUpdate& update : updates) {
      const auto found = streams.open.find(update.stream);
      if (found == streams.open.end()) continue;  // it was closed after this step
      OpenStream& open = found->second;
      // The last frame may end after the audio.
      const auto seconds = [&](size_t block) {
        return std::min(static_cast<double>(block) * frame, open.heard);
      };
      for (const WordlessPart& part : update.again) {
        open.again.push_back(
            {seconds(part.blocks.begin), seconds(part.blocks.end), part.words, part.decodes});
      }
      if (update.closed && update.stream == ending) {
        result = std::move(update.result.best);
        move_frames(result, update.first);
      } else if (update.ended() && !update.closed) {
        // Before the stream's end, its next samples may be those of the last frame. Without a
        // limit, times do not depend on how the samples are cut into pieces.
        const bool goes_on = update.stream != ending;
        keep_utterance(open, std::move(update), *streams.model,
                       goes_on ? std::numeric_limits<double>::infinity() : open.heard);
      }
    }
  }
  return result;
}

}  // namespace
}  // namespace rtfx

using namespace rtfx;

extern "C" {

rtfx_streams* rtfx_streams_of_speech(rtfx_model* model, rtfx_decoder* decoder, int64_t streams,
                                     int64_t rows, const int64_t* fewer_rows, int64_t fewer,
                                     const double* buffer, double decode_again,
                                     const rtfx_endpoint_rules* rules) {
  return guarded<rtfx_streams*>(nullptr, [&] {
    if (decoder->model != model->model)
      throw UserError("decoder", "of another model", "make one of the model that is streamed");
    const at::DeviceGuard guard = on_device_of(*model->model);
    StreamOptions options{streams, rows, {fewer_rows, fewer_rows + fewer}};
    auto made = std::make_unique<rtfx_streams>();
    made->model = model->model;
    made->decoder = decoder->decoder;
    const std::string without_caches = why_not_cache_aware(model->config);
    if (buffer != nullptr) {
      options.buffer = BufferSeconds{buffer[0], buffer[1], buffer[2]};
    } else if (!without_caches.empty()) {
      const BufferSeconds& chosen = options.buffer.emplace();
      made->notices.push_back(
          fmt::format("{}: on buffers of {} s, with {} s before and {} s behind them",
                      without_caches, chosen.chunk, chosen.left, chosen.right));
    }
    made->speech = std::make_unique<SpeechStreams>(
        model->model, *made->decoder, options,
        rules == nullptr ? EndpointRules{} : endpoint_rules(*rules, *model->model),
        require_seconds(decode_again, "decode_again", 0, kMostWordlessSeconds));
    return made.release();
  });
}

rtfx_streams* rtfx_streams_of_frames(rtfx_decoder* decoder, int64_t rows, int64_t frames) {
  return guarded<rtfx_streams*>(nullptr, [&] {
    const at::DeviceGuard guard = on_device_of(*decoder->model);
    if (rows < 1 || frames < 1) {
      throw UserError("streams", fmt::format("batches of {} rows of {} frames", rows, frames),
                      "give 1 or more of each");
    }
    auto made = std::make_unique<rtfx_streams>();
    made->model = decoder->model;
    made->decoder = decoder->decoder;
    made->search = open_search(*made->decoder, {rows, frames});
    return made.release();
  });
}

const char* rtfx_streams_json(const rtfx_streams* streams) {
  return guarded<const char*>(nullptr, [&] {
    json about = {{"notices", streams->notices}};
    if (streams->speech) {
      about["chunk_samples"] = streams->speech->encoder().chunk_samples();
      about["look_ahead_samples"] = streams->speech->encoder().look_ahead_samples();
    }
    return keep(about.dump());
  });
}
void rtfx_streams_free(rtfx_streams* streams) { delete streams; }

int64_t rtfx_streams_open(rtfx_streams* streams, const char* request) {
  return guarded<int64_t>(-1, [&] {
    const at::DeviceGuard guard = on_device_of(*streams->model);
    const json given = parse_json(request, "open", R"(for example {"boost": ["new york"]})");
    const BiasRequest asked = parse_request(given);
    const auto bias = asked.empty() ? nullptr : streams->decoder->compile_bias(asked);
    return streams->with([&](auto& s) {
      const int64_t stream = s.open();
      try {
        if (bias) s.set_bias(stream, bias);
        streams->open.try_emplace(stream);
      } catch (...) {
        s.close(stream);
        throw;
      }
      return stream;
    });
  });
}

int rtfx_streams_push(rtfx_streams* streams, const int64_t* numbers, const float* const* samples,
                      const int64_t* counts, int64_t rows, rtfx_partial* partials) {
  return guarded(-1, [&] {
    const at::DeviceGuard guard = on_device_of(*streams->model);
    if (!streams->speech) throw UserError("streams", "are of encoder frames", "push frames");
    const auto count = static_cast<size_t>(rows);
    std::vector<NewSamples> all;
    for (size_t i = 0; i < count; ++i)
      all.push_back({numbers[i], {samples[i], static_cast<size_t>(counts[i])}});
    try {
      streams->speech->push(all);
    } catch (const UserError& error) {
      // The detector hears samples after the encoder has taken them. This is no error of input,
      // after which a caller may push them again.
      if (error.where().starts_with("vad:")) throw std::runtime_error(error.what());
      throw;
    }
    for (const NewSamples& one : all)
      streams->open.at(one.stream).heard +=
          static_cast<double>(one.samples.size()) / streams->model->config.features.sample_rate;
    work(*streams, -1);
    view_partials(*streams, {numbers, count}, partials);
    return 0;
  });
}

int rtfx_streams_push_frames(rtfx_streams* streams, const int64_t* numbers, DLManagedTensor* frames,
                             const int64_t* lengths, int64_t rows, rtfx_partial* partials) {
  return guarded(-1, [&] {
    at::Tensor taken = at::fromDLPack(frames);
    const at::DeviceGuard guard = on_device_of(*streams->model);
    if (!streams->search) throw UserError("streams", "are of samples", "push samples");
    EncodedBatch batch = batch_of(*streams->model, std::move(taken), lengths, rows);
    const std::span called(numbers, static_cast<size_t>(rows));
    batch.frames = streams->search->project(batch.frames);
    streams->search->push(called, batch);
    view_partials(*streams, called, partials);
    return 0;
  });
}

int rtfx_streams_finish(rtfx_streams* streams, int64_t number, rtfx_hypothesis* hypothesis,
                        const rtfx_decoded_again** again, int64_t* again_count,
                        const rtfx_utterance** ended, int64_t* ended_count) {
  return guarded(-1, [&] {
    const at::DeviceGuard guard = on_device_of(*streams->model);
    Hypothesis found;
    if (streams->speech) {
      streams->speech->finish(number);
      found = work(*streams, number);
    } else {
      found = streams->search->finish(number);
    }
    const Tokenizer& tokenizer = *streams->model->tokenizer;
    const OpenStream& closed = streams->open.at(number);
    streams->memory = {};
    *hypothesis = streams->memory.view(std::move(found), tokenizer);
    streams->memory.view(closed.again, *again_count, *again);
    streams->memory.view(closed.ended, tokenizer, *ended_count, *ended);
    streams->open.erase(number);
    return 0;
  });
}

int rtfx_streams_close(rtfx_streams* streams, int64_t number) {
  return guarded(-1, [&] {
    const at::DeviceGuard guard = on_device_of(*streams->model);
    streams->open.erase(number);
    streams->with([&](auto& s) { s.close(number); });
    return 0;
  });
}

}  // extern "C"
