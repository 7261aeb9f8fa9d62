// Models of NeMo that rtfx does not decode, told apart so that an error can say what a file holds.
#pragma once

#include "models/settings/config_source.h"

namespace rtfx {

/// Throws UserError with the kind of model that this is, where it is none with a CTC head or an
/// RNN-T or TDT joint on a Conformer encoder.
void refuse_foreign_models(const ConfigSource& source);

}  // namespace rtfx
