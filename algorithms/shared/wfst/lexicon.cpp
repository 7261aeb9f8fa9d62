#include "algorithms/shared/wfst/lexicon.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/text_lines.h"

namespace rtfx {
namespace {

constexpr std::string_view kUnknownWord = "<unk>";

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0; (begin = line.find_first_not_of(" \t", begin)) != line.npos;) {
    const size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return fields;
}

}  // namespace

Lexicon read_lexicon(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const std::vector<std::string>& wanted, bool drop_unspelled,
                     int64_t* dropped) {
  std::unordered_map<std::string, int32_t> ids;
  for (int32_t id = 0; id < tokenizer.size(); ++id) ids.emplace(tokenizer.piece(id), id);

  Lexicon lexicon;
  *dropped = 0;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    const auto fields = split(line);
    if (fields.empty() || !std::binary_search(wanted.begin(), wanted.end(), fields[0])) continue;
    std::vector<int32_t> spelling;
    std::string problem = fields.size() == 1 ? "has no pieces" : "";
    for (size_t i = 1; i < fields.size() && problem.empty(); ++i) {
      const auto found = ids.find(std::string(fields[i]));
      if (found != ids.end())
        spelling.push_back(found->second);
      else
        problem = fmt::format("has the piece '{}', which the tokenizer lacks", fields[i]);
    }
    if (problem.empty()) {
      lexicon[std::string(fields[0])].push_back(std::move(spelling));
    } else if (drop_unspelled) {
      ++*dropped;
    } else {
      throw UserError(fmt::format("{}:{}", path.string(), lines.number()),
                      fmt::format("the word '{}' {}", fields[0], problem),
                      "spell it with this tokenizer, or leave such words out (--drop-unspelled)");
    }
  }
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
  std::map<Spelling, int32_t> words_of;  // how many words share a spelling
  std::set<Spelling> prefixes;           // proper ones
  for (const auto& [word, spellings] : lexicon) {
    for (const Spelling& spelling : spellings) {
      ++words_of[spelling];
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

  std::map<Spelling, int32_t> used;  // highest #k that a spelling has so far
  int32_t word_id = 0;
  for (const auto& [word, spellings] : lexicon) {
    ++word_id;
    for (const Spelling& spelling : spellings) {
      std::vector<int32_t> inputs;
      for (const int32_t token : spelling) inputs.push_back(token + 1);
      if (words_of[spelling] > 1 || prefixes.contains(spelling)) {
        const int32_t k = ++used[spelling];
        inputs.push_back(result.labels.symbol(k));
        result.labels.disambiguation = std::max(result.labels.disambiguation, k + 1);
      }
      int32_t from = loop;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const int32_t to = i + 1 == inputs.size() ? loop : l.add_state();
        l.add(from, to, inputs[i], i == 0 ? word_id : 0);
        from = to;
      }
    }
  }
  return result;
}

}  // namespace rtfx
