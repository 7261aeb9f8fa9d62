#include "algorithms/shared/wfst/lexicon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/text.h"

namespace rtfx {

namespace {

constexpr std::string_view kUnknownWord = "<unk>";

}  // namespace

std::vector<std::string_view> split_fields(std::string_view line) {
  return split_at(line, " \t\r");
}

float Lexicon::cost(const std::string& word, const std::vector<int32_t>& spelling) const {
  const auto found = costs_.find({word, spelling});
  return found == costs_.end() ? 0 : found->second;
}

void Lexicon::add_cost(const std::string& word, const std::vector<int32_t>& spelling, float cost) {
  const auto [entry, is_new] = costs_.try_emplace({word, spelling}, cost);
  if (!is_new) entry->second = std::min(entry->second, cost);
}

namespace {

using TokenIds = std::unordered_map<std::string, int32_t>;

bool is_probability(double value) { return value > 0 && value <= 1; }

/// Returns whether the second column of a lexicon has probabilities. Tokens may be digits, but then
/// a line has another token, or no line has a point. Throws UserError if most lines have a number
/// that is no token and another line has none, since its probability is probably missing.
bool has_probabilities(const std::filesystem::path& path, const TokenIds& ids) {
  if (!std::filesystem::is_regular_file(path)) return false;  // A pipe can be read once.
  TextLines lines(path);
  std::string_view line;
  int64_t entries = 0, numbers = 0;
  int64_t other = 0;  // the first line without a number
  bool has_point = false;
  while (lines.next(line)) {
    const auto fields = split_fields(line);
    if (fields.empty()) continue;
    ++entries;
    const auto value = fields.size() < 3 ? std::nullopt : parse_number<double>(fields[1]);
    const bool is_token = value && ids.contains(std::string(fields[1]));
    if (!value || (!is_probability(*value) && is_token)) {
      if (other == 0) other = lines.number();
      continue;
    }
    has_point |= fields[1].find('.') != fields[1].npos;
    numbers += is_token ? 0 : 1;
  }
  if (other == 0) return has_point;
  if (has_point && 2 * numbers > entries) {
    throw UserError(fmt::format("{}:{}", path.string(), other),
                    "has no probability before its tokens, and most lines have one",
                    "write a probability in each line of the lexicon, or in none");
  }
  return false;
}

}  // namespace

void require_word(std::string_view word, const std::filesystem::path& path, int64_t line,
                  const char* remedy) {
  const bool is_symbol = word.size() > 1 && word.front() == '#' &&
                         word.find_first_not_of("0123456789", 1) == word.npos;
  if (word != "<eps>" && !is_symbol) return;
  throw UserError(fmt::format("{}:{}", path.string(), line),
                  fmt::format("'{}' is no word: it is the name of {} in tables of symbols", word,
                              is_symbol ? "a disambiguation symbol" : "the empty label"),
                  remedy);
}

Lexicon read_lexicon(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const std::vector<std::string>& wanted, bool drop_unspelled, int64_t* dropped,
                     int64_t* unwanted) {
  TokenIds ids;
  for (int32_t id = 0; id < tokenizer.size(); ++id) ids.emplace(tokenizer.piece(id), id);

  Lexicon lexicon;
  std::unordered_set<std::string> others;  // words that are not wanted
  *dropped = 0;
  const size_t first_token = has_probabilities(path, ids) ? 2 : 1;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    const auto fields = split_fields(line);
    if (fields.empty()) continue;
    require_word(fields[0], path, lines.number(), "leave the line out, or rename the word");
    if (!std::binary_search(wanted.begin(), wanted.end(), fields[0])) {
      if (unwanted != nullptr) others.emplace(fields[0]);
      continue;
    }
    const auto where = [&] { return fmt::format("{}:{}", path.string(), lines.number()); };
    const auto probability =
        first_token == 2 && fields.size() > 1 ? parse_number<double>(fields[1]) : 1.0;
    if (!probability || !is_probability(*probability)) {
      throw UserError(where(), fmt::format("the probability of '{}' is {}", fields[0], fields[1]),
                      "it must be above 0 and at most 1");
    }
    std::vector<int32_t> spelling;
    std::string problem = fields.size() == 1 ? "has no tokens" : "";
    for (size_t i = first_token; i < fields.size() && problem.empty(); ++i) {
      const auto found = ids.find(std::string(fields[i]));
      if (found != ids.end())
        spelling.push_back(found->second);
      else
        problem = fmt::format("has the token '{}', which the tokenizer lacks", fields[i]);
    }
    if (problem.empty()) {
      if (first_token == 2) {
        lexicon.add_cost(std::string(fields[0]), spelling,
                         static_cast<float>(-std::log(*probability)));
      }
      lexicon[std::string(fields[0])].push_back(std::move(spelling));
    } else if (drop_unspelled) {
      ++*dropped;
    } else {
      throw UserError(where(), fmt::format("the word '{}' {}", fields[0], problem),
                      "spell it with this tokenizer, or leave such words out (--drop-unspelled)");
    }
  }
  if (unwanted != nullptr) *unwanted = std::ssize(others);
  if (!lexicon.empty() && tokenizer.unknown() >= 0 &&
      std::binary_search(wanted.begin(), wanted.end(), kUnknownWord)) {
    auto& spellings = lexicon[std::string(kUnknownWord)];
    if (spellings.empty()) spellings.push_back({tokenizer.unknown()});
  }
  for (auto& [word, spellings] : lexicon) {
    std::sort(spellings.begin(), spellings.end());
    spellings.erase(std::unique(spellings.begin(), spellings.end()), spellings.end());
  }
  return lexicon;
}

LexiconTransducer lexicon_transducer(const Lexicon& lexicon, int32_t tokens) {
  using Spelling = std::vector<int32_t>;
  std::map<Spelling, int32_t> word_count;  // how many words share a spelling
  std::set<Spelling> prefixes;             // proper prefixes of spellings
  for (const auto& [word, spellings] : lexicon) {
    for (const Spelling& spelling : spellings) {
      ++word_count[spelling];
      for (size_t n = 1; n < spelling.size(); ++n)
        prefixes.emplace(spelling.begin(), spelling.begin() + static_cast<ptrdiff_t>(n));
    }
  }

  LexiconTransducer result;
  TransducerArcs& l = result.arcs;
  result.backoff_word = static_cast<int32_t>(lexicon.size()) + 1;
  result.labels.tokens = tokens;
  const int32_t loop = l.add_state();
  l.finals.emplace_back(loop, 0.0f);
  l.add(loop, loop, result.labels.symbol(0), result.backoff_word);

  std::map<Spelling, int32_t> used;  // largest k of the symbols #k of a spelling so far
  int32_t word_id = 0;
  for (const auto& [word, spellings] : lexicon) {
    ++word_id;
    for (const Spelling& spelling : spellings) {
      std::vector<int32_t> inputs;
      for (const int32_t token : spelling) inputs.push_back(token + 1);
      if (word_count[spelling] > 1 || prefixes.contains(spelling)) {
        const int32_t k = ++used[spelling];
        inputs.push_back(result.labels.symbol(k));
        result.labels.disambiguation = std::max(result.labels.disambiguation, k + 1);
      }
      int32_t from = loop;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const int32_t to = i + 1 == inputs.size() ? loop : l.add_state();
        l.add(from, to, inputs[i], i == 0 ? word_id : 0, i == 0 ? lexicon.cost(word, spelling) : 0);
        from = to;
      }
    }
  }
  return result;
}

std::function<int32_t(std::string_view)> word_labels(const Lexicon& lexicon) {
  std::unordered_map<std::string_view, int32_t> labels;
  for (const auto& [word, spellings] : lexicon)
    labels.emplace(word, static_cast<int32_t>(labels.size()) + 1);
  return [labels = std::move(labels)](std::string_view word) {
    const auto found = labels.find(word);
    return found == labels.end() ? 0 : found->second;
  };
}

}  // namespace rtfx
