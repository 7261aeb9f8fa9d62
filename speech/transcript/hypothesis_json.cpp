#include "speech/transcript/hypothesis_json.h"

namespace rtfx {

nlohmann::json to_json(const Hypothesis& hypothesis, const Tokenizer& tokenizer) {
  nlohmann::json object = {{"text", tokenizer.text(hypothesis.tokens)},
                           {"tokens", hypothesis.tokens},
                           {"frames", hypothesis.frames},
                           {"score", hypothesis.score}};
  if (!hypothesis.durations.empty()) object["durations"] = hypothesis.durations;
  for (const Hypothesis& entry : hypothesis.nbest)
    object["nbest"].push_back(to_json(entry, tokenizer));
  return object;
}

}  // namespace rtfx
