// Makes a ModelConfig of a NeMo YAML and the tensors beside it. The tensors take precedence.
#pragma once

#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/settings/config_source.h"

namespace rtfx {

/// Reads the configuration of a model. `weights` are under canonical names (rename_tensors). Adds a
/// line to `notices` wherever YAML and tensors disagree. Throws UserError for a setting that rtfx
/// does not support, and names it.
ModelConfig read_config(const YamlView& yaml, const StateDict& weights,
                        std::vector<std::string>& notices);

}  // namespace rtfx
