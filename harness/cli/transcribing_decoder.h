// The decoder that the arguments of `rtfx transcribe` ask for.
#pragma once

#include <memory>

#include "algorithms/decoder.h"
#include "harness/cli/transcribe_options.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// With the options that --nbest, --boost and --allowed stand for: the one that was named, or what
/// goes with the model and its device. Not prepared. Throws UserError.
std::unique_ptr<Decoder> transcribing_decoder(const TranscribeOptions& options,
                                              const std::shared_ptr<const AcousticModel>& model);
/// Throws what that would throw for a decoder that was named, before a model is there.
void check_transcribing_decoder(const TranscribeOptions& options, const ModelConfig& model);

}  // namespace rtfx
