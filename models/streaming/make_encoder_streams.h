// Streams of whichever kind the options ask for.
#pragma once

#include <memory>

#include "models/acoustic_model.h"
#include "models/streaming/encoder_streams.h"

namespace rtfx {

/// Returns streams over a model: buffered ones where `options.buffer` asks for them, else streams
/// with caches. Throws UserError where the model has a random encoder, or where the options do not
/// fit it. why_not_cache_aware() (step_sizes.h) says which models cannot stream with caches.
std::unique_ptr<EncoderStreams> make_encoder_streams(std::shared_ptr<const AcousticModel> model,
                                                     const StreamOptions& options);

}  // namespace rtfx
