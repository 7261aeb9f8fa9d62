// The encoder's settings: tensors decide, then the YAML, then the defaults of NeMo's class.
#pragma once

#include "models/settings/config_source.h"

namespace rtfx {

/// Throws UserError for a setting that is not supported or makes no sense, naming it. The attention
/// context is the first of those that the file offers.
EncoderConfig read_encoder(const ConfigSource& source, int64_t mel_bins);

}  // namespace rtfx
