// A small configuration for tests of configurations and plans.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/config/config.h"

namespace rtfx::test {

inline nlohmann::json valid() {
  return nlohmann::json::parse(R"({
    "question": "which one?",
    "models": ["m/a.nemo", {"id": "b", "path": "m/b.nemo"}],
    "datasets": [{"id": "d", "manifest": "d.jsonl"}],
    "decoders": ["frame_looping", {"id": "window", "name": "label_looping", "options": {"window": 4}}],
    "batch_sizes": [1, 8]})");
}

inline Config parse(const nlohmann::json& document,
                    const std::vector<std::string>& overrides = {}) {
  return parse_config({document, "dir/c.json", overrides});
}

}  // namespace rtfx::test
