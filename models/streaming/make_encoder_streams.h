// Streams of whichever kind the options ask for.
#pragma once

#include <memory>

#include "models/acoustic_model.h"
#include "models/streaming/encoder_streams.h"

namespace rtfx {

/// Streams over a model. Throws UserError where the model or the options do not allow it; by caches
/// see why_not_cache_aware() (step_sizes.h), and the encoder must not be fused.
std::unique_ptr<EncoderStreams> make_encoder_streams(std::shared_ptr<const AcousticModel> model,
                                                     const StreamOptions& options);

}  // namespace rtfx
