#pragma once

#include <memory>

#include "models/encoder/attention.h"

namespace rtfx {

/// The attention that the settings ask for.
std::unique_ptr<const Attention> make_attention(const EncoderConfig& config,
                                                const WeightReader& reader);

}  // namespace rtfx
