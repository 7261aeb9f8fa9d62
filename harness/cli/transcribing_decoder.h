// The decoder that the arguments of `rtfx transcribe` ask for.
#pragma once

#include <memory>

#include "algorithms/decoder.h"
#include "harness/cli/transcribe_options.h"
#include "speech/pipeline/default_decoder.h"

namespace rtfx {

/// With the options that --nbest, --boost and --allowed stand for. Both throw UserError.
///
/// The one that was named, not prepared; null where none was.
std::unique_ptr<Decoder> named_decoder(const TranscribeOptions& options, const ModelConfig& model);
/// The default decoder of the model and its device, prepared. It serves where none was named.
std::unique_ptr<Decoder> unnamed_decoder(const TranscribeOptions& options,
                                         const AcousticModel& model, const PrepareDecoder& prepare);

}  // namespace rtfx
