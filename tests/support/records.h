// Records of a journal as JSON, for tests that look at single members.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/journal.h"

namespace rtfx::test {

inline std::vector<nlohmann::json> objects_of(const record::Records& records) {
  std::vector<nlohmann::json> objects;
  for (const record::Any& record : records) objects.push_back(record::write(record));
  return objects;
}

inline std::vector<nlohmann::json> read_objects(const std::filesystem::path& journal) {
  return objects_of(read_journal(journal));
}

}  // namespace rtfx::test
