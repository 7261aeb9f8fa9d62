// Random n-gram models as tables, their values by the definition of back-off in double precision,
// and their ARPA files.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace rtfx::test {

constexpr int kStart = -1, kEnd = -2;

struct NgramTable {
  struct Entry {
    double probability, backoff;  // log10
  };
  using Words = std::vector<int>;  // token ids, kStart or kEnd, with the oldest first

  int order = 2;
  int vocabulary = 0;
  std::map<Words, Entry> ngrams;
  std::optional<double> unknown;  // log10 p(<unk>)

  bool has(const Words& words) const { return ngrams.count(words) > 0; }

  /// Returns ln p(token | history), where only the last order - 1 words of the history count. A
  /// model without <unk> gives -inf for an unknown token.
  double score(Words history, int token) const {
    if (static_cast<int>(history.size()) > order - 1)
      history.erase(history.begin(), history.end() - (order - 1));
    return log10_score(history, token) * std::numbers::ln10;
  }

 private:
  double log10_score(const Words& history, int token) const {
    Words words = history;
    words.push_back(token);
    if (const auto found = ngrams.find(words); found != ngrams.end())
      return found->second.probability;
    const double never = -std::numeric_limits<double>::infinity();
    if (history.empty()) return token >= 0 ? unknown.value_or(never) : never;
    const auto context = ngrams.find(history);
    const double backoff = context == ngrams.end() ? 0 : context->second.backoff;
    return backoff + log10_score({history.begin() + 1, history.end()}, token);
  }
};

/// Returns a random model. Some tokens are unknown. The model holds the prefix and the suffix of
/// each of its n-grams, as back-off needs.
inline NgramTable random_ngrams(std::mt19937& random, int order, int vocabulary) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto entry = [&] { return NgramTable::Entry{-3 * uniform(random), uniform(random) - 0.7}; };
  NgramTable table{order, vocabulary, {}, {}};
  if (uniform(random) < 0.8) table.unknown = -4;
  for (int token = 0; token < vocabulary; ++token) {
    if (token == 0 || uniform(random) < 0.8) table.ngrams[{token}] = entry();
  }
  if (uniform(random) < 0.9) table.ngrams[{kStart}] = {0, uniform(random) - 0.7};
  if (uniform(random) < 0.9) table.ngrams[{kEnd}] = {-1.5, 0};
  std::vector<NgramTable::Words> contexts;
  for (const auto& [words, unused] : table.ngrams) contexts.push_back(words);
  for (int n = 2; n <= order; ++n) {
    std::vector<NgramTable::Words> longer;
    for (const NgramTable::Words& context : contexts) {
      if (context.back() == kEnd) continue;
      for (int token = kEnd; token < vocabulary; ++token) {
        NgramTable::Words words = context;
        words.push_back(token);
        const bool possible = token != kStart && table.has({words.begin() + 1, words.end()});
        if (possible && uniform(random) < 0.4) longer.push_back(words);
      }
    }
    for (const NgramTable::Words& words : longer) {
      table.ngrams[words] = entry();
      if (words.back() == kEnd || n == order) table.ngrams[words].backoff = 0;
    }
    contexts = std::move(longer);
  }
  return table;
}

/// The form in which a file writes token ids.
enum class TokenForm { number, character };

inline std::string written(int token, TokenForm form) {
  if (token == kStart) return "<s>";
  if (token == kEnd) return "</s>";
  if (form == TokenForm::number) return std::to_string(token);
  const int code = token + 100;  // has one or two bytes in UTF-8
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

/// Returns the ARPA file. Lines within an order are shuffled, because the format does not promise
/// that they are sorted.
inline std::string to_arpa(const NgramTable& table, TokenForm form, std::mt19937& random) {
  std::vector<std::vector<std::string>> sections(static_cast<size_t>(table.order));
  if (table.unknown) sections[0].push_back(fmt::format("{}\t<unk>\t0", *table.unknown));
  for (const auto& [words, entry] : table.ngrams) {
    std::string line = fmt::format("{}\t", entry.probability);
    for (size_t i = 0; i < words.size(); ++i) {
      line += (i > 0 ? " " : "") + written(words[i], form);
    }
    if (entry.backoff != 0) line += fmt::format("\t{}", entry.backoff);
    sections[words.size() - 1].push_back(line);
  }
  std::string text = "\\data\\\n";
  for (size_t n = 1; n <= sections.size(); ++n)
    text += fmt::format("ngram {}={}\n", n, sections[n - 1].size());
  for (size_t n = 1; n <= sections.size(); ++n) {
    std::shuffle(sections[n - 1].begin(), sections[n - 1].end(), random);
    text += fmt::format("\n\\{}-grams:\n", n);
    for (const std::string& line : sections[n - 1]) text += line + "\n";
  }
  return text + "\n\\end\\\n";
}

}  // namespace rtfx::test
