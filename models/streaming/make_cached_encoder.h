// The step of cache-aware streams for a model.
#pragma once

#include <memory>

#include "models/streaming/cached_encoder.h"

namespace rtfx {

/// Makes a cached encoder from the operators or the kernels of the model's encoder. `context` holds
/// the encoder's settings with the wanted attention context; the model's own context is not used.
/// Throws UserError where the encoder does not allow caches, or sees too far for its kernels.
std::unique_ptr<CachedEncoder> make_cached_encoder(std::shared_ptr<const AcousticModel> model,
                                                   const EncoderConfig& context, int64_t slots);

}  // namespace rtfx
