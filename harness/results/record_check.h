// Whether a record of a journal is what its table says (harness/results/records.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rtfx {

/// Throws UserError(where) naming the first field that is missing or of another type, or a name in
/// the record that rtfx does not know. Records of other kinds, and fields that no table lists, may
/// hold anything.
void check_record(const nlohmann::json& record, const std::string& where);

/// Checks a line of a hypotheses file.
void check_hypothesis(const nlohmann::json& line, const std::string& where);

}  // namespace rtfx
