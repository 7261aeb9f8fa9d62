// Random language models for random table models, and greedy searches with them by plain loops that
// follow the definition.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/support/greedy_cases.h"
#include "tests/support/ngram_table.h"

namespace rtfx::test {

struct LmCase {
  NgramTable table;
  double alpha;
  nlohmann::json option;  // value of the option "lm"

  /// Returns alpha * ln p(token | <s> tokens).
  double bonus(const std::vector<int32_t>& tokens, int32_t token) const {
    NgramTable::Words history = {kStart};
    history.insert(history.end(), tokens.begin(), tokens.end());
    return alpha * table.score(history, token);
  }
};

/// Writes the ARPA file of `table` to `path`, and returns the case.
inline LmCase written_lm(std::mt19937& random, NgramTable table, double alpha,
                         const std::filesystem::path& path) {
  LmCase lm{std::move(table), alpha, {}};
  std::ofstream(path) << to_arpa(lm.table, TokenForm::character, random);
  lm.option = {{"path", path.string()}, {"alpha", lm.alpha}, {"normalize_unk", false}};
  return lm;
}

/// Returns a trigram model that knows all tokens. Only the contexts that consist of the start
/// symbol and of tokens below 6 have arcs, and these have many.
inline LmCase wide_lm(std::mt19937& random, int64_t vocabulary, const std::filesystem::path& path) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto entry = [&] { return NgramTable::Entry{-3 * uniform(random), uniform(random) - 0.7}; };
  const auto tokens = static_cast<int>(vocabulary), contexts = std::min(tokens, 6);
  NgramTable table{3, tokens, {}, {}};
  table.ngrams[{kStart}] = {0, -0.3};
  for (int k = 0; k < tokens; ++k) table.ngrams[{k}] = entry();
  for (int a = kStart; a < contexts; ++a)
    for (int k = 0; k < tokens; ++k)
      if (uniform(random) < 0.7) table.ngrams[{a, k}] = entry();
  for (int a = kStart; a < contexts; ++a) {
    for (int b = 0; b < contexts; ++b) {
      for (int k = 0; table.has({a, b}) && k < tokens; ++k)
        if (table.has({b, k}) && uniform(random) < 0.7)
          table.ngrams[{a, b, k}] = {-uniform(random), 0};
    }
  }
  return written_lm(random, std::move(table), 0.5, path);
}

/// Returns a random model of order 2 to 4, whose ARPA file it writes to `path`.
inline LmCase random_lm(std::mt19937& random, int64_t vocabulary,
                        const std::filesystem::path& path) {
  const int order = 2 + static_cast<int>(random() % 3);
  NgramTable table = random_ngrams(random, order, static_cast<int>(vocabulary));
  const double alpha = 0.25 * static_cast<double>(1 + random() % 8);
  return written_lm(random, std::move(table), alpha, path);
}

/// Returns the exact decoders that take a language model.
inline std::vector<Arm> lm_arms() {
  std::vector<Arm> arms = exact_arms();
  std::erase_if(arms, [](const Arm& arm) { return arm.name == "step_replay"; });
  return arms;
}

/// Decodes one utterance with CTC greedily, where `bonus` adds to the score of each new token, as a
/// language model does. `logits` is [T][V+1].
inline Hypothesis ctc_oracle(const Table& logits, const Bonus& bonus) {
  Hypothesis hypothesis;
  double score = 0;
  size_t previous = logits.empty() ? 0 : logits[0].size() - 1;
  for (size_t t = 0; t < logits.size(); ++t) {
    const size_t blank = logits[t].size() - 1;
    double sum = 0;
    for (const double z : logits[t]) sum += std::exp(z);
    size_t k = first_argmax(logits[t], 0, blank + 1);
    double value = logits[t][k];
    if (k != blank && k != previous) {
      std::vector<double> fused(logits[t].begin(), logits[t].end() - 1);
      for (size_t i = 0; i < blank; ++i)
        fused[i] += bonus(hypothesis.tokens, static_cast<int32_t>(i));
      if (previous < blank) fused[previous] = -std::numeric_limits<double>::infinity();
      k = first_argmax(fused, 0, blank);
      value = fused[k];
      hypothesis.tokens.push_back(static_cast<int32_t>(k));
      hypothesis.frames.push_back(static_cast<int32_t>(t));
    }
    score += value - std::log(sum);
    previous = k;
  }
  hypothesis.score = static_cast<float>(score);
  return hypothesis;
}

inline Hypothesis ctc_oracle(const Table& logits, const LmCase& lm) {
  return ctc_oracle(logits, [&](const auto& tokens, int32_t k) { return lm.bonus(tokens, k); });
}

/// Expects equal tokens, frames and durations, and scores that differ only by rounding.
inline void expect_same(const Hypothesis& found, const Hypothesis& expected,
                        const std::string& what) {
  Hypothesis with_score = found;
  // Scores beyond 500 leave few digits behind the point in float32.
  const float bound = std::max(1e-3f, 2e-6f * std::abs(expected.score));
  const bool near = std::abs(found.score - expected.score) <= bound;
  if (near) with_score.score = expected.score;
  EXPECT_EQ(with_score, expected) << what << ": score " << found.score << " instead of "
                                  << expected.score;
}

}  // namespace rtfx::test
