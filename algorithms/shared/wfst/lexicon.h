// L: the lexicon, from tokens to words.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/transducer_arcs.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Spellings of each word in token ids; words in the order of their bytes, spellings sorted.
using Lexicon = std::map<std::string, std::vector<std::vector<int32_t>>, std::less<>>;

/// Lines "word piece piece ...", separated by spaces and tabs, plain or gzip. Only words that
/// `wanted` (sorted) holds are kept; `<unk>`, if wanted and not in the file, is spelled by the
/// tokenizer's unknown piece, unless the file has none of the words: then the result is empty. A
/// tokenizer without such a piece leaves `<unk>` out, as any word that the file lacks.
/// Throws UserError with file and line for a word without pieces and for a piece that the tokenizer
/// does not have; with `drop_unspelled` such lines are left out and counted in *dropped.
Lexicon read_lexicon(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const std::vector<std::string>& wanted, bool drop_unspelled, int64_t* dropped);

/// L and the labels of its inputs. Word i (from 1) is the i-th of the lexicon; a spelling that is
/// another word's too, or begins another one, ends in a symbol #k, k >= 1, so that L o G can be
/// determinised. The word stands on the first arc of its spelling. #0, back-off, passes through:
/// its label on the output side is the number of words + 1.
struct LexiconTransducer {
  TransducerArcs arcs;
  TokenLabels labels;
  int32_t backoff_word = 0;  // label of #0 on the output side: number of words + 1
};
LexiconTransducer lexicon_transducer(const Lexicon& lexicon, int32_t tokens);

}  // namespace rtfx
