// The preprocessor's settings, from the YAML and from the filterbank and window that files bring.
#pragma once

#include "models/settings/config_source.h"

namespace rtfx {

/// Throws UserError for a setting that is not supported or makes no sense, naming it.
FeatureConfig read_features(const ConfigSource& source);

}  // namespace rtfx
