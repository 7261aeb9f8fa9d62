// The functions of library.h for utterances that come in pieces.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "algorithms/decoder.h"
#include "base/json.h"
#include "models/streaming/cached_encoder.h"
#include "python/handles.h"
#include "python/library.h"
#include "speech/streams/speech_streams.h"

using nlohmann::json;

struct rtfx_streams {
  std::shared_ptr<const rtfx::AcousticModel> model;
  std::shared_ptr<rtfx::Decoder> decoder;
  // One of the two exists: the first for samples, the second for encoder frames.
  std::unique_ptr<rtfx::SpeechStreams> speech;
  std::unique_ptr<rtfx::Streams> search;
  std::vector<std::string> notices;
  // Both are kept for open streams of samples: the seconds received, and the parts decoded again.
  std::map<int64_t, double> heard;
  std::map<int64_t, std::vector<rtfx::DecodedAgain>> again;
  rtfx::ViewMemory memory;  // holds the last call's results

  void forget(int64_t number) {
    heard.erase(number);
    again.erase(number);
  }

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

/// Fills partials[i] with the text so far of utterance numbers[i].
void view_partials(rtfx_streams& streams, std::span<const int64_t> numbers,
                   rtfx_partial* partials) {
  streams.memory = {};
  for (size_t i = 0; i < numbers.size(); ++i) {
    PartialResult partial = streams.with([&](auto& s) { return s.partial(numbers[i]); });
    partials[i] = streams.memory.view(std::move(partial), *streams.model->tokenizer);
  }
}

/// Encodes and searches all that is ready. Returns the result of `ending`, if that ends.
Hypothesis work(rtfx_streams& streams, int64_t ending) {
  Hypothesis result;
  SpeechStreams& speech = *streams.speech;
  const double frame = streams.model->config.frame_seconds();
  for (auto updates = speech.step(false); !updates.empty(); updates = speech.step(false)) {
    for (SpeechUpdate& update : updates) {
      // The last frame may end after the audio.
      const auto seconds = [&](size_t block) {
        return std::min(static_cast<double>(block) * frame, streams.heard[update.stream]);
      };
      for (const WordlessPart& part : update.again) {
        streams.again[update.stream].push_back(
            {seconds(part.blocks.begin), seconds(part.blocks.end), part.words, part.decodes});
      }
      if (update.closed && update.stream == ending) result = std::move(update.result.best);
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
                                     const double* buffer, double decode_again) {
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
    made->speech =
        std::make_unique<SpeechStreams>(model->model, *made->decoder, options, EndpointRules{},
                                        require_decode_again(decode_again, kMostWordlessSeconds));
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
    streams->speech->push(all);
    for (const NewSamples& one : all)
      streams->heard[one.stream] +=
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
                        const rtfx_decoded_again** again, int64_t* again_count) {
  return guarded(-1, [&] {
    const at::DeviceGuard guard = on_device_of(*streams->model);
    Hypothesis found;
    if (streams->speech) {
      streams->speech->finish(number);
      found = work(*streams, number);
    } else {
      found = streams->search->finish(number);
    }
    streams->memory = {};
    *hypothesis = streams->memory.view(std::move(found), *streams->model->tokenizer);
    streams->memory.view(streams->again[number], *again_count, *again);
    streams->forget(number);
    return 0;
  });
}

int rtfx_streams_close(rtfx_streams* streams, int64_t number) {
  return guarded(-1, [&] {
    const at::DeviceGuard guard = on_device_of(*streams->model);
    streams->with([&](auto& s) { s.close(number); });
    streams->forget(number);
    return 0;
  });
}

}  // extern "C"
