#include "models/streaming/make_encoder_streams.h"

#include <c10/core/InferenceMode.h>

#include "base/error.h"
#include "models/streaming/buffered_streams.h"
#include "models/streaming/cached_streams.h"

namespace rtfx {

std::unique_ptr<EncoderStreams> make_encoder_streams(std::shared_ptr<const AcousticModel> model,
                                                     const StreamOptions& options) {
  if (model->stand_in)
    throw UserError("streams", "the model's encoder has random weights", "use a checkpoint");
  const c10::InferenceMode inference;
  if (options.buffer) return std::make_unique<BufferedStreams>(std::move(model), options);
  return std::make_unique<CachedStreams>(std::move(model), options);
}

}  // namespace rtfx
