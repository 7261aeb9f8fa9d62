#include "harness/run/pipeline.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithms/gpu/sync_debug.h"
#include "algorithms/result_check.h"
#include "harness/machine/device.h"

namespace rtfx {

EncodedBatch encode_batch(const AcousticModel& model, RecordedEncoder& encoder, const Clips& clips,
                          const RegionClock& clock, RegionTimes& times) {
  EncodedBatch batch;
  std::vector<int64_t> samples;
  for (const auto* clip : clips) {
    samples.push_back(static_cast<int64_t>(clip->size()));
    batch.lengths_host.push_back(model.config.encoded_frames(samples.back()));
  }
  const int64_t longest = std::max<int64_t>(1, *std::max_element(samples.begin(), samples.end()));
  const auto pinned = at::TensorOptions(at::kFloat).pinned_memory(model.device.is_cuda());
  at::Tensor padded = at::zeros({static_cast<int64_t>(clips.size()), longest}, pinned);
  for (size_t i = 0; i < clips.size(); ++i) {
    std::copy(clips[i]->begin(), clips[i]->end(),
              padded.mutable_data_ptr<float>() + static_cast<int64_t>(i) * longest);
  }

  at::Tensor audio, lengths;
  clock.measure(Region::h2d, times, [&] {
    audio = padded.to(model.device, at::kFloat, /*non_blocking=*/true);
    lengths = at::tensor(samples, at::kLong).to(model.device);
  });
  Features features;
  clock.measure(Region::features, times, [&] { features = (*model.features)(audio, lengths); });
  Encoded encoded;
  clock.measure(Region::encoder, times, [&] { encoded = encoder(features); });
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
  clock.measure(Region::decode, times, [&] {
    const auto work = [&] { hypotheses = decoder.decode(batch); };
    sync_debug ? forbid_undeclared_syncs(work) : work();
  });
  check_layout(hypotheses, batch, rules);
  Decoded decoded;
  clock.measure(Region::d2h, times, [&] { decoded.hypotheses = hypotheses.to_host(); });
  check_values(decoded.hypotheses, batch, rules);
  clock.measure(Region::detokenize, times, [&] {
    for (const Hypothesis& h : decoded.hypotheses)
      decoded.texts.push_back(model.tokenizer->text(h.tokens));
  });
  return decoded;
}

}  // namespace rtfx
