// The loops of NeMo's two streaming scripts, for one utterance on the CPU. Their frames differ from
// those of EncoderStreams at the utterance's edges (docs/background/streams.md).
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "models/checkpoint/config.h"
#include "models/streaming/cached_encoder.h"
#include "models/streaming/stream_features.h"

namespace rtfx::test {

using Samples = std::vector<float>;

/// Returns the frames [T', D] that the model's encoder computes from the whole utterance.
inline at::Tensor whole(const AcousticModel& model, const Samples& audio) {
  const auto samples = static_cast<int64_t>(audio.size());
  at::Tensor wave = at::zeros({1, std::max<int64_t>(samples, 1)});
  std::copy(audio.begin(), audio.end(), wave.data_ptr<float>());
  const Encoded encoded = (*model.encoder)(
      (*model.features)(wave.to(model.device), at::tensor({samples}, at::kLong).to(model.device)));
  return encoded.frames[0].narrow(0, 0, encoded.lengths.item<int64_t>());
}

/// The parts of a buffer in samples. add() changes them as NeMo's
/// ContextSize.add_frames_get_removed_() does.
struct NemoBuffer {
  int64_t left = 0, chunk = 0, right = 0;

  void add(int64_t samples, bool last, const NemoBuffer& expected) {
    left += chunk;
    chunk = last ? right + samples : expected.chunk;
    right = last ? 0 : right + samples - expected.chunk;
    const int64_t total = expected.left + expected.chunk + expected.right;
    left -= std::max<int64_t>(0, left + chunk + right - total);
  }
};

/// Returns encoder frames [T', D] as speech_to_text_streaming_infer_rnnt.py computes them. `frame`
/// and `expected` are in samples, and `expected` consists of whole encoder frames. An incomplete
/// last frame is dropped.
inline at::Tensor by_nemos_buffers(const AcousticModel& model, const Samples& audio,
                                   const NemoBuffer& expected, int64_t frame) {
  const auto samples = static_cast<int64_t>(audio.size());
  NemoBuffer buffer;
  std::vector<at::Tensor> frames;
  int64_t begin = 0, end = std::min(expected.chunk + expected.right, samples);
  while (begin < samples) {
    buffer.add(end - begin, end >= samples, expected);
    const int64_t total = buffer.left + buffer.chunk + buffer.right;
    const Samples part(audio.begin() + (end - total), audio.begin() + end);
    frames.push_back(
        whole(model, part).slice(0, buffer.left / frame).slice(0, 0, buffer.chunk / frame));
    begin = end;
    end = std::min(end + expected.chunk, samples);
  }
  return at::cat(frames);
}

/// Returns encoder frames [T', D] as speech_to_text_cache_aware_streaming_infer.py computes them.
/// That script appends one mel frame of zeros to the utterance. It stops when fewer mel frames are
/// left than an encoder frame covers. From the second step on, it reads zeros before the utterance
/// as if they were frames.
inline at::Tensor by_nemos_caches(const std::shared_ptr<const AcousticModel>& model,
                                  const Samples& audio, const std::vector<int64_t>& context) {
  ModelConfig config = model->config;
  if (!context.empty()) select_context(config, context, "test");
  const auto encoder = make_cached_encoder(model, config.encoder, 1);
  const StepSizes& sizes = encoder->sizes();
  const int64_t chunk = sizes.chunk_size[1], before = sizes.pre_encode_cache_size[1];
  const StreamFeatures features(model, chunk);
  StreamAudio received;
  received.push(audio);
  received.finish();
  const int64_t real = config.features.frames(received.received());
  const int64_t total = real + (audio.empty() ? 0 : 1);
  encoder->clear(0);
  std::vector<at::Tensor> frames;
  for (int64_t step = 0, done = 0;; ++step) {
    const int64_t full = done + sizes.chunk_size[step == 0 ? 0 : 1], first = full - chunk;
    const int64_t count = std::min(full, total) - done;
    if (count < (step == 0 ? 1 : config.encoder.subsampling_factor)) break;
    const int64_t begin = step == 0 ? std::max<int64_t>(0, before - first) : 0;
    const int64_t end = done + count - first + before;
    const at::Tensor control =
        at::tensor({begin, end, step * sizes.valid_out_len, int64_t{0}, int64_t{0}}, at::kLong)
            .view({CachedStep::kControlRows, 1});
    const StreamFeatures::Block block = {&received, first, std::min(real, full)};
    const at::Tensor encoded = (*encoder)({features({&block, 1}, 1), control});
    frames.push_back(encoded[0].narrow(0, 0, encoder->valid_frames(end)).clone());
    done = full;
  }
  return at::cat(frames);
}

}  // namespace rtfx::test
