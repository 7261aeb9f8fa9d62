// The outcome of a whole run, from its records.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/config/config.h"

namespace rtfx {

/// The ExitCode that the records of a whole run ask for; says on stderr what is below the required
/// grade.
int outcome(const std::vector<nlohmann::json>& records, const Config& config);

/// Cases of exact decoders whose grade is below `required` for their dtype, and of all decoders
/// whose replay failed, with the place, unless `different` is allowed.
std::vector<std::string> below_required(const std::vector<nlohmann::json>& records,
                                        const std::map<std::string, std::string>& required);

}  // namespace rtfx
