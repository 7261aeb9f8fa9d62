#include "harness/run/pipeline.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithms/gpu/sync_debug.h"
#include "algorithms/result_check.h"
#include "harness/machine/device.h"

namespace rtfx {
namespace {

/// [clips, samples of the longest], zeros behind each clip.
at::Tensor padded(const Clips& clips, int64_t longest, bool pinned) {
  const auto options = at::TensorOptions(at::kFloat).pinned_memory(pinned);
  at::Tensor rows = at::empty({static_cast<int64_t>(clips.size()), longest}, options);
  float* row = rows.mutable_data_ptr<float>();
  for (const auto* clip : clips) {
    std::fill(std::copy(clip->begin(), clip->end(), row), row + longest, 0.0F);
    row += longest;
  }
  return rows;
}

}  // namespace

BatchSize batch_size(const AcousticModel& model, const Clips& clips) {
  const auto longest = std::ranges::max(clips, {}, [](const auto* clip) { return clip->size(); });
  return {static_cast<int64_t>(clips.size()),
          model.config.encoded_frames(static_cast<int64_t>(longest->size()))};
}

EncodedBatch encode_batch(const AcousticModel& model, RecordedEncoder& encoder, const Clips& clips,
                          const RegionClock& clock, RegionTimes& times) {
  EncodedBatch batch;
  std::vector<int64_t> samples;
  at::Tensor host, audio, lengths;
  Features features;
  Encoded encoded;
  {
    const WallClock wall(times);
    clock.measure(Region::pad, clips.size(), times, [&] {
      for (const auto* clip : clips) samples.push_back(static_cast<int64_t>(clip->size()));
      const int64_t longest = std::max<int64_t>(1, std::ranges::max(samples));
      host = padded(clips, longest, model.device.is_cuda());
    });
    clock.measure(Region::h2d, clips.size(), times, [&] {
      audio = host.to(model.device, at::kFloat, /*non_blocking=*/true);
      lengths = at::tensor(samples, at::kLong).to(model.device);
    });
    clock.measure(Region::features, clips.size(), times,
                  [&] { features = (*model.features)(audio, lengths); });
    for (const int64_t count : samples)
      features.host_lengths.push_back(model.config.features.frames(count));
    clock.measure(Region::encoder, clips.size(), times, [&] { encoded = encoder(features); });
  }
  for (const int64_t count : samples)
    batch.lengths_host.push_back(model.config.encoded_frames(count));
  encoded = model.frames_for_decoder(encoded, audio, lengths);
  synchronize(model.device);
  batch.frames = encoded.frames;
  batch.lengths = encoded.lengths;
  return batch;
}

Decoded decode_batch(Decoder& decoder, const AcousticModel& model, const EncodedBatch& batch,
                     const RegionClock& clock, RegionTimes& times, bool sync_debug) {
  const ResultRules rules(decoder.describe(), model.config);
  Hypotheses hypotheses;
  const size_t rows = batch.lengths_host.size();
  const WallClock wall(times);
  clock.measure(Region::decode, rows, times, [&] {
    const auto work = [&] { hypotheses = decoder.decode(batch); };
    sync_debug ? forbid_undeclared_syncs(work) : work();
  });
  check_layout(hypotheses, batch, rules);
  Decoded decoded;
  clock.measure(Region::d2h, rows, times, [&] { decoded.hypotheses = hypotheses.to_host(); });
  check_values(decoded.hypotheses, batch, rules);
  clock.measure(Region::detokenize, rows, times, [&] {
    for (const Hypothesis& h : decoded.hypotheses)
      decoded.texts.push_back(model.tokenizer->text(h.tokens));
  });
  return decoded;
}

}  // namespace rtfx
