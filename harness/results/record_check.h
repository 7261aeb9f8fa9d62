// Whether a record of a journal is what tables, comparisons and exports count on (docs/journal.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rtfx {

/// Throws UserError(where) naming the first field that is missing or of another type. Records of
/// kinds that are not read again, and fields that nothing reads, may hold anything.
void check_record(const nlohmann::json& record, const std::string& where);

/// Checks a line of a hypotheses file.
void check_hypothesis(const nlohmann::json& line, const std::string& where);

}  // namespace rtfx
