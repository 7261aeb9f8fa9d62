// Lexicons: the spellings of words in tokens, and their transducer L.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/shared/wfst/composition.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Splits a line at blanks and tabs. The fields are views of it.
std::vector<std::string_view> split_fields(std::string_view line);

/// Throws UserError at "path:line" for a name that symbol tables reserve: <eps>, #0, #1, ...
void require_word(std::string_view word, const std::filesystem::path& path, int64_t line,
                  const char* remedy);

/// The spellings of each word in token ids. Words have the order of their bytes; spellings are
/// sorted.
class Lexicon : public std::map<std::string, std::vector<std::vector<int32_t>>, std::less<>> {
 public:
  using map::map;

  /// Returns -ln p(spelling | word), or 0 where the lexicon has no probabilities.
  float cost(const std::string& word, const std::vector<int32_t>& spelling) const;
  /// Keeps the least of several costs of a spelling.
  void add_cost(const std::string& word, const std::vector<int32_t>& spelling, float cost);

 private:
  std::map<std::pair<std::string, std::vector<int32_t>>, float> costs_;
};

/// Reads lines "word token token ...", separated by spaces and tabs, plain or gzip. It also reads
/// Kaldi's lexiconp.txt, "word probability token token ...", whose every line has a number there,
/// with a point in it on some line. Probabilities are above 0 and at most 1. It keeps only words of
/// the sorted list `wanted`. If `wanted` has `<unk>` and the file has not, the tokenizer's unknown
/// token spells `<unk>`. A tokenizer without an unknown token leaves `<unk>` out. If the file has
/// no wanted word, the result is empty. The other words of the file are counted in *unwanted unless
/// it is null. Throws UserError with file and line for a word without tokens and for a token that
/// the tokenizer lacks. With `drop_unspelled`, such lines are left out and counted in *dropped.
/// Always throws it for a probability outside (0, 1], and for a line without one where most lines
/// have one. Throws it, too, for the symbols <eps>, #0, #1, ... in place of a word. Probabilities
/// are recognised only in a regular file, which can be read twice. In a pipe, they count as tokens.
Lexicon read_lexicon(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const std::vector<std::string>& wanted, bool drop_unspelled, int64_t* dropped,
                     int64_t* unwanted = nullptr);

/// L and the labels of its inputs. Word i (from 1) is the i-th word of the lexicon. If a spelling
/// belongs to several words, or begins another spelling, it ends in a symbol #k, k >= 1, so that L
/// o G can be determinised. The first arc of a spelling has the word and the spelling's cost. #0
/// (back-off) passes through L.
struct LexiconTransducer {
  TransducerArcs arcs;
  TokenLabels labels;
  int32_t backoff_word = 0;  // output label of #0: number of words + 1
};
/// Returns L for a tokenizer of `tokens` tokens.
LexiconTransducer lexicon_transducer(const Lexicon& lexicon, int32_t tokens);

/// Returns a function from a word to its label: its position in the lexicon from 1 on, or 0 for an
/// unknown word. The lexicon must outlive the function.
std::function<int32_t(std::string_view)> word_labels(const Lexicon& lexicon);

}  // namespace rtfx
