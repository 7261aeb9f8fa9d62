// The decoder that the arguments of `rtfx transcribe` ask for.
#pragma once

#include <memory>

#include "algorithms/decoder.h"
#include "harness/cli/transcribe_options.h"
#include "models/checkpoint/config.h"

namespace rtfx {

/// With the options that --nbest, --boost and --allowed stand for. Not prepared. Throws UserError.
std::unique_ptr<Decoder> transcribing_decoder(const TranscribeOptions& options,
                                              const ModelConfig& model);

}  // namespace rtfx
