#include "models/streaming/cached_streams.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "models/settings/contexts.h"
#include "models/streaming/make_cached_encoder.h"

namespace rtfx {
namespace {

constexpr const char* kCachedStreams = "cache-aware streams";

EncoderConfig with_context(const ModelConfig& model, const std::vector<int64_t>& context) {
  ModelConfig config = model;
  if (!context.empty()) select_context(config, context, kCachedStreams);
  return config.encoder;
}

}  // namespace

CachedStreams::CachedStreams(std::shared_ptr<const AcousticModel> model,
                             const StreamOptions& options)
    : EncoderStreams(options, kCachedStreams),
      model_(model),
      recorder_(model->device.is_cuda() ? options.recorder : nullptr),
      encoder_(make_cached_encoder(model, with_context(model->config, options.att_context_size),
                                   options.streams)),
      features_(model, rows(), encoder_->sizes().chunk_size[1]) {}

int64_t CachedStreams::chunk_samples() const {
  return encoder_->sizes().chunk_size[1] * model_->config.features.hop;
}

int64_t CachedStreams::look_ahead_samples() const {
  return features_.samples_for(1) - model_->config.features.hop;
}

int64_t CachedStreams::chunk_end(const Stream& stream) const {
  return stream.done + encoder_->sizes().chunk_size[stream.steps == 0 ? 0 : 1];
}

bool CachedStreams::ready(const Stream& stream) const {
  return stream.audio.finished() ||
         stream.audio.received() >= features_.samples_for(chunk_end(stream));
}

const at::Tensor& CachedStreams::encoded() {
  if (recorded_) {
    recorded_();
    return output_;
  }
  // The first step is launched in any case: libraries allocate and choose algorithms then, which a
  // recording does not allow.
  output_ = (*encoder_)(step_);
  if (recorder_) {
    const at::Tensor first = output_;
    recorded_ = recorder_([this] { output_ = (*encoder_)(step_); });
    output_.copy_(first);
  }
  return output_;
}

EncodedPieces CachedStreams::encode(Rows rows) {
  const StepSizes& sizes = encoder_->sizes();
  const int64_t chunk = sizes.chunk_size[1], before = sizes.pre_encode_cache_size[1];
  const bool pinned = model_->device.is_cuda();
  at::Tensor control =
      at::zeros({4, this->rows()}, at::TensorOptions(at::kLong).pinned_memory(pinned));
  control[3].fill_(encoder_->spare_slot());
  auto of = control.accessor<int64_t, 2>();
  EncodedPieces pieces;
  std::vector<StreamFeatures::Block> blocks;
  for (const auto& [number, stream] : rows) {
    const auto row = static_cast<int64_t>(blocks.size());
    const int64_t full = chunk_end(*stream), first = full - chunk;
    const bool finished = stream->audio.finished();
    const int64_t received = model_->config.features.frames(stream->audio.received());
    const int64_t frames = finished ? std::min(received, full) : full;
    blocks.push_back({&stream->audio, first, std::min(received, full)});
    of[0][row] = std::max<int64_t>(0, before - first);
    const int64_t end = frames > stream->done ? frames - first + before : 0;
    of[1][row] = end;
    of[2][row] = stream->steps * sizes.valid_out_len;
    of[3][row] = stream->slot;

    stream->done = full;
    ++stream->steps;
    stream->over = finished && received <= full;
    pieces.streams.push_back(number);
    pieces.lengths.push_back(encoder_->valid_frames(end));
    pieces.last.push_back(stream->over);
  }
  const at::Tensor features = features_(blocks);
  if (!step_.features.defined())
    step_ = {at::empty_like(features), at::empty_like(control, at::TensorOptions(model_->device))};
  step_.features.copy_(features);
  step_.rows.copy_(control, /*non_blocking=*/true);
  pieces.frames = encoded().narrow(0, 0, static_cast<int64_t>(blocks.size())).clone();
  for (const auto& [number, stream] : rows)
    stream->audio.forget(features_.first_sample(stream->done));
  return pieces;
}

}  // namespace rtfx
