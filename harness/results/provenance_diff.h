// Differences between the environments and configurations of two runs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rtfx {

struct ProvenanceChange {
  std::string key;          // JSON pointer within the provenance record
  nlohmann::json from, to;  // null where the record has no such key
};

/// Sorted by key. Leaves out what differs between any two runs: time, id, name, question, output,
/// the seconds that reading took.
std::vector<ProvenanceChange> provenance_changes(const nlohmann::json& from,
                                                 const nlohmann::json& to);

/// One line per change, or one that says that there is none, to stdout.
void print_provenance_changes(const std::vector<ProvenanceChange>& changes);

}  // namespace rtfx
