#include "models/streaming/cached_encoder.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace rtfx {

CachedEncoder::CachedEncoder(std::shared_ptr<const AcousticModel> model,
                             const EncoderConfig& context, int64_t slots)
    : model_(std::move(model)),
      config_(context),
      sizes_(step_sizes(context)),
      mel_(at::zeros({slots + 1, model_->config.features.mel_bins, sizes_.pre_encode_cache_size[1]},
                     at::TensorOptions(model_->device).dtype(at::kFloat))) {}

int64_t CachedEncoder::valid_frames(int64_t end) const {
  return std::max<int64_t>(0, config_.subsampled(end) - sizes_.drop_extra_pre_encoded);
}

at::Tensor CachedEncoder::next_window(const CachedStep& step) {
  const at::Tensor slots = step.rows[3];
  const at::Tensor window = at::cat({mel_.index_select(0, slots), step.features}, 2);
  mel_.index_copy_(0, slots, window.narrow(2, step.features.size(2), mel_.size(2)));
  return window;
}

}  // namespace rtfx
