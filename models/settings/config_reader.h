// From a NeMo YAML and the tensors beside it to a ModelConfig: tensors decide, then the YAML.
#pragma once

#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/settings/config_source.h"

namespace rtfx {

/// `weights` under canonical names (rename_tensors). Every place where YAML and tensors disagree
/// adds a line to `notices`. Throws UserError for a setting that rtfx does not support, naming it.
ModelConfig read_config(const YamlView& yaml, const StateDict& weights,
                        std::vector<std::string>& notices);

}  // namespace rtfx
