// Values that the command line puts into a configuration: "--set a.b.0.c=value".
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error_list.h"

namespace rtfx {

/// Sets a.b.0.c in the document of `file`, making objects on the way; a value is JSON, else plain
/// text. A path among the values is relative to the working folder, as on any command line; in the
/// document it becomes relative to the file's folder. `errors` gets what cannot be set.
void apply_overrides(nlohmann::json& document, const std::filesystem::path& file,
                     const std::vector<std::string>& overrides, ErrorList& errors);

/// The error with the override in front that brought the value it is about, if one did.
UserError with_its_override(const UserError& error, const std::filesystem::path& file,
                            const std::vector<std::string>& overrides);

}  // namespace rtfx
