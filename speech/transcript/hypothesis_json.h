// A hypothesis as JSON: what `rtfx transcribe --json` prints and hypotheses/ holds.
#pragma once

#include <nlohmann/json.hpp>

#include "algorithms/hypotheses.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// {"text", "tokens", "frames", "score"}; "durations" for TDT; "nbest", a list of the same, where
/// the hypothesis has one.
nlohmann::json to_json(const Hypothesis& hypothesis, const Tokenizer& tokenizer);

}  // namespace rtfx
