// Scores token sequences with a language model:
//   rtfx_score_tokens MODEL.arpa VOCABULARY [--all]
// The program reads a JSON list of token ids from each line and prints {"scores", "end"} for it.
// "scores" holds ln p of each token after <s> and the tokens before it. "end" is ln p of </s> after
// all of them. With --all, "scores" holds every token of the vocabulary instead of the one that
// follows. Unknown tokens have p(<unk>) each, which KenLM does too.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "algorithms/shared/ngram_lm/load_ngram_lm.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: rtfx_score_tokens MODEL.arpa VOCABULARY [--all]\n";
    return 2;
  }
  const c10::InferenceMode inference;
  const bool all = argc > 3;
  const auto lm = rtfx::load_ngram_lm(argv[1], std::stoll(argv[2]), {.normalize_unk = false});
  const auto numbers = [](const at::Tensor& values) {
    const at::Tensor flat = values.reshape(-1).contiguous();
    const float* begin = flat.const_data_ptr<float>();
    return std::vector<float>(begin, begin + flat.numel());
  };
  for (std::string line; std::getline(std::cin, line);) {
    at::Tensor state = lm.initial_states(1);
    nlohmann::json scores = nlohmann::json::array();
    for (const int64_t label : nlohmann::json::parse(line).get<std::vector<int64_t>>()) {
      const auto step = lm.advance(state);
      if (all) {
        scores.push_back(numbers(step.scores));
      } else {
        scores.push_back(step.scores[0][label].item<float>());
      }
      state = step.next[0][label].reshape({1});
    }
    std::cout << nlohmann::json{{"scores", scores}, {"end", numbers(lm.final_scores(state))[0]}}
              << '\n';
  }
  return 0;
}
