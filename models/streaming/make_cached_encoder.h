// The step of cache-aware streams for a model.
#pragma once

#include <memory>

#include "models/streaming/cached_encoder.h"

namespace rtfx {

/// By the operators or the kernels of the model's encoder. `context`: the encoder's settings with
/// the attention context that is wanted; the model's own context is not looked at. Throws UserError
/// where the encoder is none for caches, or sees too far for its kernels.
std::unique_ptr<CachedEncoder> make_cached_encoder(std::shared_ptr<const AcousticModel> model,
                                                   const EncoderConfig& context, int64_t slots);

}  // namespace rtfx
