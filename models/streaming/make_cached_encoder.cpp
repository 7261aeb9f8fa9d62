#include "models/streaming/make_cached_encoder.h"

#include "base/error.h"
#include "models/streaming/fused_cached_encoder.h"
#include "models/streaming/reference_cached_encoder.h"

namespace rtfx {

std::unique_ptr<CachedEncoder> make_cached_encoder(std::shared_ptr<const AcousticModel> model,
                                                   const EncoderConfig& context, int64_t slots) {
  ModelConfig config = model->config;
  config.encoder = context;
  const std::string reason = why_not_cache_aware(config);
  if (!reason.empty())
    throw UserError("cache-aware streams", "the model cannot be streamed by caches: " + reason,
                    "use buffered streams, or a cache-aware model (chunked_limited)");
  if (model->encoder->fused())
    return std::make_unique<FusedCachedEncoder>(std::move(model), context, slots);
  return std::make_unique<ReferenceCachedEncoder>(std::move(model), context, slots);
}

}  // namespace rtfx
