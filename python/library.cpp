#include "python/library.h"

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "algorithms/decoder.h"
#include "algorithms/foreign_code.h"
#include "base/error.h"
#include "base/json.h"
#include "base/samples.h"
#include "datasets/audio.h"
#include "models/load_checkpoint.h"
#include "python/handles.h"
#include "speech/pipeline/default_decoder.h"
#include "speech/pipeline/encoder_memory.h"
#include "speech/pipeline/pipeline.h"
#include "speech/pipeline/recorded_encoder.h"
#include "speech/runtime/build.h"
#include "speech/runtime/device.h"
#include "speech/transcript/transcript.h"

using nlohmann::json;

namespace rtfx {
namespace {

thread_local std::string failure, text;
thread_local bool failure_is_input = false;

json describe(const rtfx_model& loaded) {
  const ModelConfig& config = loaded.config;
  const double hop = static_cast<double>(config.features.hop) / config.features.sample_rate;
  json pieces = json::array();
  for (int64_t id = 0; id < loaded.model->tokenizer->size(); ++id)
    pieces.push_back(loaded.model->tokenizer->piece(static_cast<int32_t>(id)));
  return {{"kind", config.kind()},
          {"device", loaded.model->device.str()},
          {"dtype", dtype_name(loaded.model->dtype)},
          {"sample_rate", config.features.sample_rate},
          {"frame_seconds", hop * static_cast<double>(config.encoder.factor())},
          {"blank", config.vocabulary},
          {"durations", config.durations},
          {"languages", config.prompt.languages},
          {"pieces", std::move(pieces)},
          {"notices", loaded.notices}};
}

/// Converts the caller's hypothesis, but only the members that determine its words.
Hypothesis hypothesis_of(const rtfx_hypothesis& given, const Tokenizer& tokenizer) {
  const auto copy = [](const int32_t* values, int64_t count) {
    return std::vector<int32_t>(values, values + (values == nullptr ? 0 : count));
  };
  Hypothesis hypothesis;
  hypothesis.tokens = copy(given.tokens, given.token_count);
  hypothesis.frames = copy(given.frames, given.token_count);
  hypothesis.durations = copy(given.durations, given.token_count);
  for (const int32_t token : hypothesis.tokens) {
    if (token < 0 || token >= tokenizer.size())
      throw UserError("tokens", fmt::format("{}, of {} pieces", token, tokenizer.size()),
                      "give those of a hypothesis of this model");
  }
  for (const int32_t frame : hypothesis.frames) {
    if (frame < 0)
      throw UserError("frames", fmt::format("{}", frame), "give those of a hypothesis");
  }
  if (given.has_words == 0) return hypothesis;
  hypothesis.words.emplace();
  for (int64_t i = 0; i < given.word_count; ++i) {
    if (given.word_frames[i] < 0) {
      throw UserError("word_frames", fmt::format("{}", given.word_frames[i]),
                      "give those of a hypothesis");
    }
    hypothesis.words->push_back({given.words[i], given.word_frames[i]});
  }
  return hypothesis;
}

}  // namespace

double require_seconds(double seconds, std::string_view where, double least, double most) {
  if (seconds >= least && seconds <= most) return seconds;
  throw UserError(where, fmt::format("{} seconds", seconds),
                  fmt::format("give {} to {}", least, most));
}

const char* keep(std::string value) {
  text = std::move(value);
  return text.c_str();
}

void note_failure() {
  try {
    throw;
  } catch (const UserError& e) {
    failure = e.what();
    failure_is_input = true;
  } catch (...) {
    failure = describe_failure();
    failure_is_input = false;
  }
}

EncodedBatch batch_of(const AcousticModel& model, at::Tensor frames, const int64_t* lengths,
                      int64_t rows) {
  const auto refuse = [](const std::string& what, const char* remedy) {
    throw UserError("frames", what, remedy);
  };
  if (frames.dim() != 3) refuse(fmt::format("{} dimensions", frames.dim()), "give [B, T, D]");
  if (frames.scalar_type() != model.dtype) {
    refuse(fmt::format("{}, the model is {}", c10::toString(frames.scalar_type()),
                       c10::toString(model.dtype)),
           "convert them, or load the model in their dtype");
  }
  if (frames.device() != model.device) {
    refuse(fmt::format("on {}, the model is on {}", frames.device().str(), model.device.str()),
           "move them, or load the model there");
  }
  if (const int64_t width = model.config.encoder.frame_width(); frames.size(2) != width)
    refuse(fmt::format("{} wide, the model's are {}", frames.size(2), width), "give [B, T, D]");
  if (frames.size(0) != rows) {
    throw UserError("lengths", fmt::format("{} for {} rows of frames", rows, frames.size(0)),
                    "give one for each row");
  }
  if (rows < 1) refuse("a batch of 0 rows", "give at least one");
  EncodedBatch batch{frames.contiguous(), {}, {lengths, lengths + rows}};
  for (int64_t b = 0; b < rows; ++b) {
    if (lengths[b] < 0 || lengths[b] > frames.size(1)) {
      throw UserError("lengths",
                      fmt::format("{} in row {}, of {} frames", lengths[b], b, frames.size(1)),
                      "give the number of a row's frames that count");
    }
  }
  batch.lengths = at::tensor(batch.lengths_host, at::kLong).to(model.device);
  return batch;
}

}  // namespace rtfx

using namespace rtfx;

extern "C" {

const char* rtfx_error() { return failure.c_str(); }
int rtfx_error_is_input() { return failure_is_input ? 1 : 0; }

const char* rtfx_version() {
  return guarded<const char*>(nullptr, [] { return keep(version_text()); });
}

int rtfx_load_plugin(const char* path) {
  return guarded(-1, [&] {
    load_plugin(path);
    return 0;
  });
}

rtfx_model* rtfx_model_load(const char* path, const char* device, const char* dtype,
                            const int32_t* context, int64_t contexts, const char* language) {
  return guarded<rtfx_model*>(nullptr, [&] {
    Checkpoint checkpoint = load_checkpoint(path, {context, context + contexts});
    if (*language != '\0') select_language(checkpoint.config, language, "language");
    auto loaded = std::make_unique<rtfx_model>();
    const at::Device where = parse_device(device, "device");
    const Dtypes dtypes = usable_dtypes(parse_dtypes(dtype, "dtype"), where, checkpoint.notices);
    loaded->model = AcousticModel::build(checkpoint, where, dtypes);
    loaded->encoder = std::make_unique<RecordedEncoder>(loaded->model, /*graphs=*/false);
    loaded->recorded = std::make_shared<RecordedEncoder>(loaded->model, /*graphs=*/true);
    loaded->config = checkpoint.config;
    loaded->notices = checkpoint.notices;
    return loaded.release();
  });
}

const char* rtfx_model_json(const rtfx_model* model) {
  return guarded<const char*>(nullptr, [&] { return keep(describe(*model).dump()); });
}
void rtfx_model_free(rtfx_model* model) { delete model; }

int64_t rtfx_words(const rtfx_model* loaded, const rtfx_hypothesis* hypothesis,
                   const rtfx_word** words) {
  return guarded<int64_t>(-1, [&] {
    const Tokenizer& tokenizer = *loaded->model->tokenizer;
    TranscriptRules rules;
    rules.frame_seconds = loaded->config.frame_seconds();
    const Transcript transcript =
        transcript_of(hypothesis_of(*hypothesis, tokenizer), {}, tokenizer, rules);
    static thread_local ViewMemory memory;
    memory = {};
    int64_t count = 0;
    memory.view(transcript.words, count, *words);
    return count;
  });
}

rtfx_decoder* rtfx_decoder_new(const rtfx_model* model, const char* name, const char* options) {
  return guarded<rtfx_decoder*>(nullptr, [&] {
    const json given = parse_json(options, "options", R"(for example {"window": 8})");
    auto made = std::make_unique<rtfx_decoder>();
    made->model = model->model;
    const at::DeviceGuard guard = on_device_of(*made->model);
    const auto prepare = [&](Decoder& decoder) {
      call_decoder(decoder, {}, [&] { decoder.prepare(made->model, {}); });
    };
    if (name == nullptr || *name == '\0') {
      made->decoder = default_greedy(*made->model, given, "options", prepare);
    } else {
      made->decoder = make_decoder(name, given, "options", model->config);
      prepare(*made->decoder);
    }
    made->rules.emplace(*made->decoder, model->config);
    return made.release();
  });
}

const char* rtfx_decoder_json(const rtfx_decoder* decoder) {
  return guarded<const char*>(nullptr, [&] {
    const Description about = decoder->decoder->describe();
    return keep(json{{"name", about.name},
                     {"options", decoder->decoder->options()},
                     {"score_kind", about.score_kind},
                     {"counters", decoder->decoder->counters()}}
                    .dump());
  });
}
void rtfx_decoder_free(rtfx_decoder* decoder) { delete decoder; }

DLManagedTensor* rtfx_read_audio(const char* path, int sample_rate, const char** notices) {
  return guarded<DLManagedTensor*>(nullptr, [&] {
    const Audio audio = read_audio(path, sample_rate);
    *notices = keep(json(audio.notices).dump());
    return at::toDLPack(at::tensor(audio.samples, at::kFloat));
  });
}

DLManagedTensor* rtfx_encode(rtfx_model* model, const float* const* samples, const int64_t* counts,
                             int64_t rows, int64_t* lengths) {
  return guarded<DLManagedTensor*>(nullptr, [&] {
    if (rows < 1) throw UserError("audio", "no clips", "give at least one");
    const AcousticModel& acoustic = *model->model;
    const at::DeviceGuard guard = on_device_of(acoustic);
    Clips clips;
    int64_t longest = 0;
    for (int64_t b = 0; b < rows; ++b) {
      if (counts[b] == 0) throw UserError("audio", "a clip without samples", "leave it out");
      clips.emplace_back(std::span(samples[b], static_cast<size_t>(counts[b])));
      require_valid_samples(clips.back().samples, fmt::format("audio[{}]", b),
                            "repair the audio or leave it out");
      longest = std::max(longest, counts[b]);
    }
    require_encoder_memory(acoustic, rows, longest, free_memory(acoustic.device), "batch_size");
    RegionTimes times;
    const EncodedBatch batch =
        encode_batch(acoustic, *model->encoder, clips, RegionClock(acoustic.device), times);
    std::ranges::copy(batch.lengths_host, lengths);
    return at::toDLPack(batch.frames);
  });
}

rtfx_result* rtfx_decode(rtfx_decoder* decoder, DLManagedTensor* frames, const int64_t* lengths,
                         int64_t rows) {
  return guarded<rtfx_result*>(nullptr, [&] {
    const AcousticModel& model = *decoder->model;
    at::Tensor taken = at::fromDLPack(frames);
    const at::DeviceGuard guard = on_device_of(model);
    EncodedBatch batch = batch_of(model, std::move(taken), lengths, rows);
    Hypotheses found;
    call_decoder(*decoder->decoder, {}, [&] { found = decoder->decoder->decode(batch); });
    check_layout(found, batch, *decoder->rules);
    return new rtfx_result{
        decoder->model, *decoder->rules, std::move(batch), std::move(found), {}, {}};
  });
}

DLManagedTensor* rtfx_result_tensor(const rtfx_result* result, const char* name) {
  return guarded<DLManagedTensor*>(nullptr, [&] {
    const Hypotheses& h = result->hypotheses;
    const std::string wanted = name;
    for (const auto& [known, tensor] : {std::pair("lengths", &h.lengths),
                                        {"tokens", &h.tokens},
                                        {"frames", &h.frames},
                                        {"durations", &h.durations},
                                        {"scores", &h.scores}}) {
      if (wanted == known) return tensor->defined() ? at::toDLPack(*tensor) : nullptr;
    }
    throw UserError("tensor", "no '" + wanted + "'",
                    "lengths, tokens, frames, durations or scores");
  });
}

int64_t rtfx_result_rows(rtfx_result* result, const rtfx_hypothesis** rows) {
  return guarded<int64_t>(-1, [&] {
    if (result->rows.empty()) {
      std::vector<Hypothesis> found = result->hypotheses.to_host();
      check_values(found, result->batch, result->rules);
      for (Hypothesis& row : found)
        result->rows.push_back(result->memory.view(std::move(row), *result->model->tokenizer));
    }
    *rows = result->rows.data();
    return std::ssize(result->rows);
  });
}
void rtfx_result_free(rtfx_result* result) { delete result; }

}  // extern "C"
