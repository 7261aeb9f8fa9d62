#include "models/streaming/fused_cached_encoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"

namespace rtfx {
namespace {

const FusedEncoder* encoder_of(const AcousticModel& model, int64_t attended) {
  if (attended > FusedEncoder::kMostAttended)
    throw UserError("cache-aware streams",
                    fmt::format("attention sees {} frames, with those of a step, and the fused "
                                "encoder at most {}",
                                attended, FusedEncoder::kMostAttended),
                    "use encoder: reference, or a smaller att_context_size");
  return model.encoder->fused_encoder();
}

}  // namespace

FusedCachedEncoder::FusedCachedEncoder(std::shared_ptr<const AcousticModel> model,
                                       const EncoderConfig& context, int64_t slots)
    : CachedEncoder(std::move(model), context, slots),
      encoder_(encoder_of(*model_, sizes_.last_channel_cache_size + sizes_.valid_out_len)),
      rings_(config_, slots + 1, sizes_.valid_out_len,
             at::TensorOptions(model_->device).dtype(encoder_->dtype())) {}

at::Tensor FusedCachedEncoder::operator()(const CachedStep& step) {
  return encoder_->forward_step({next_window(step), step.rows[0], step.rows[1],
                                 sizes_.drop_extra_pre_encoded, step.rows[3], step.rows[2]},
                                rings_);
}

}  // namespace rtfx
