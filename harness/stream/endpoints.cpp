#include "harness/stream/endpoints.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "base/error.h"
#include "harness/stream/stream_load.h"
#include "speech/runtime/stages.h"

namespace rtfx {

EndpointRules endpoint_rules(const EndpointSettings& endpoint, const AcousticModel& model) {
  EndpointRules rules;
  if (endpoint.rule == "pause") {
    rules.pause = pause_frames(endpoint.seconds, model.config.frame_seconds());
  } else if (endpoint.rule == "token") {
    const std::string where = endpoint.where + "/tokens";
    rules.tokens = find_end_tokens(*model.tokenizer, endpoint.tokens, where);
    if (rules.tokens.empty()) {
      throw UserError(where, "the model has no token that ends an utterance (<EOU>, <EOB>)",
                      "name one of its tokens, or take another rule");
    }
  } else {
    rules.silence = endpoint.seconds;
    rules.detector = std::make_shared<const VoiceDetector>(
        endpoint.vad, model.config.features.sample_rate, endpoint.where + "/vad");
  }
  return rules;
}

namespace {

/// One recording that is being streamed.
struct Recording {
  size_t clip;
  size_t given = 0;        // samples so far, including the silence behind the recording
  bool has_ended = false;  // the rule has ended an utterance
};

}  // namespace

EndpointFigures measure_endpoint(SpeechStreams& speech, const Clips& audio, int64_t streams,
                                 int64_t samples, double silence, const ModelConfig& config) {
  const auto rate = static_cast<double>(config.features.sample_rate);
  const auto behind = static_cast<size_t>(std::llround(silence * rate));
  const std::vector<float> zeros(static_cast<size_t>(samples));
  EndpointFigures figures;
  std::map<int64_t, Recording> open;
  const auto take = [&](const SpeechUpdate& update) {
    Recording& recording = open.at(update.stream);
    const Hypothesis& best = update.result.best;
    if (update.ended() && !best.tokens.empty()) {
      figures.early += recording.has_ended ? 1 : 0;
      recording.has_ended = update.rule != EndpointRule::stream;
      if (recording.has_ended) {
        ++figures.ends;
        const auto end = static_cast<double>(update.first + end_of(best));
        figures.delays.push_back(static_cast<double>(recording.given) / rate -
                                 end * config.frame_seconds());
      } else {
        ++figures.missed;
      }
    }
    if (update.closed) open.erase(update.stream);
  };
  for (size_t next = 0; next < audio.size() || !open.empty();) {
    check_interrupt();
    for (; next < audio.size() && std::ssize(open) < streams; ++next)
      open.emplace(speech.open(audio[next].prompt), Recording{.clip = next});
    for (auto& [stream, recording] : open) {
      const std::span<const float> clip = audio[recording.clip].samples;
      const size_t whole = clip.size() + behind;
      const bool of_clip = recording.given < clip.size();
      const size_t end = std::min(recording.given + zeros.size(), of_clip ? clip.size() : whole);
      const size_t count = end - recording.given;
      speech.push(stream,
                  of_clip ? clip.subspan(recording.given, count) : std::span(zeros).first(count));
      recording.given = end;
      if (end == whole) speech.finish(stream);
    }
    for (auto updates = speech.step(); !updates.empty(); updates = speech.step())
      std::ranges::for_each(updates, take);
  }
  return figures;
}

record::EndpointRun endpoint_run(const EndpointSettings& endpoint, const EndpointFigures& figures) {
  record::EndpointRun run;
  run.rule = endpoint.rule;
  if (endpoint.rule != "token") run.seconds = Number(endpoint.seconds);
  run.ends = figures.ends;
  run.early = figures.early;
  run.missed = figures.missed;
  if (figures.delays.empty()) return run;
  const Percentiles delays = percentiles(figures.delays);
  run.delay_seconds = Number(delays.mean);
  run.delay_p50_seconds = Number(delays.p50);
  run.delay_p95_seconds = Number(delays.p95);
  return run;
}

}  // namespace rtfx
