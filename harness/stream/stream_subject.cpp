#include "harness/stream/stream_subject.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "harness/stream/requests.h"
#include "models/streaming/cached_encoder.h"
#include "speech/runtime/stages.h"

namespace rtfx {

StreamSubject search_subject(const StreamSettings& settings, Decoder& decoder,
                             const AcousticModel& model, const LoadedDataset& dataset,
                             const EncodedDataset& encoded) {
  struct State {
    std::unique_ptr<Streams> streams;
    std::vector<StreamedUtterance> utterances;
    std::vector<Hypothesis> whole;
  };
  const double frame_seconds = model.config.frame_seconds();
  const auto state = std::make_shared<State>();
  state->streams = decoder.streams({settings.max_batch, largest_request(settings, frame_seconds)});
  state->utterances.resize(dataset.seconds.size());
  state->whole.resize(dataset.seconds.size());
  Streams& streams = *state->streams;
  for (size_t b = 0; b < encoded.batches.size(); ++b) {
    check_interrupt();
    const std::vector<size_t>& batch = encoded.batches[b];
    EncodedBatch projected = encoded.encoded[b];
    projected.frames = streams.project(encoded.encoded[b].frames);
    std::vector<int64_t> in_one_piece;
    for (size_t row = 0; row < batch.size(); ++row) in_one_piece.push_back(streams.open());
    streams.push(in_one_piece, projected);
    for (size_t row = 0; row < batch.size(); ++row) {
      const size_t i = batch[row];
      const int64_t frames = encoded.encoded[b].lengths_host[row];
      state->whole[i] = streams.finish(in_one_piece[row]);
      state->utterances[i] = {projected.frames[static_cast<int64_t>(row)].narrow(0, 0, frames),
                              request_ends(settings, frames, frame_seconds, dataset.seconds[i])};
    }
  }
  return {&decoder, &model, &dataset,
          [state, partial = settings.partial](int64_t count, const StreamStarts& starts) {
            return std::make_unique<StreamServer>(*state->streams, state->utterances, count,
                                                  partial, starts);
          },
          [state](const std::vector<size_t>& utterances, int64_t) {
            std::vector<Hypothesis> results;
            for (const size_t i : utterances) results.push_back(state->whole[i]);
            return results;
          }};
}

StreamSubject speech_subject(const StreamSettings& settings, Decoder& decoder,
                             const std::shared_ptr<const AcousticModel>& model,
                             const LoadedDataset& dataset) {
  struct State {
    Clips audio;
    int64_t count = 0;
    std::unique_ptr<SpeechStreams> streams;
  };
  const auto state = std::make_shared<State>();
  state->audio = all_clips(*model, dataset);
  const int64_t samples = samples_of_request(settings, *model);
  const auto streams_for = [settings, state, model, &decoder](int64_t count) -> SpeechStreams& {
    if (state->count == count) return *state->streams;
    StreamOptions encoder = encoder_options(settings, *model, count);
    encoder.streams += encoder.rows;  // includes the streams whose end is pending
    state->streams.reset();           // frees its memory first
    state->streams = std::make_unique<SpeechStreams>(model, decoder, encoder);
    state->count = count;
    return *state->streams;
  };
  return {&decoder, model.get(), &dataset,
          [state, samples, streams_for, partial = settings.partial](int64_t count,
                                                                    const StreamStarts& starts) {
            return std::make_unique<SpeechServer>(streams_for(count), state->audio, count, samples,
                                                  partial, starts);
          },
          [state, streams_for](const std::vector<size_t>& utterances, int64_t count) {
            Clips audio;
            for (const size_t i : utterances) audio.push_back(state->audio[i]);
            return in_one_piece(streams_for(count), audio, count);
          }};
}

StreamOptions encoder_options(const StreamSettings& settings, const AcousticModel& model,
                              int64_t streams) {
  StreamOptions encoder;
  encoder.streams = streams;
  encoder.rows = std::min(streams, settings.max_batch);
  std::ranges::copy_if(settings.fewer_rows, std::back_inserter(encoder.fewer_rows),
                       [&](int64_t rows) { return rows < encoder.rows; });
  if (!why_not_cache_aware(model.config).empty())
    encoder.buffer = {settings.buffer[0], settings.buffer[1], settings.buffer[2]};
  return encoder;
}

int64_t samples_of_request(const StreamSettings& settings, const AcousticModel& model) {
  return static_cast<int64_t>(settings.period_ms / 1000 *
                              static_cast<double>(model.config.features.sample_rate));
}

Clips all_clips(const AcousticModel& model, const LoadedDataset& dataset) {
  std::vector<size_t> all(dataset.audio.size());
  std::iota(all.begin(), all.end(), 0);
  return clips_of(model.config, dataset, all);
}

}  // namespace rtfx
