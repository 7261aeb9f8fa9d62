// Words and phrases outside the vocabulary: a search knows them beside those of its graph, whose
// file stays as it is. Galvez and Kaldewey ("GPU-Accelerated WFST Beam Search Decoder for CTC-based
// Speech Recognition", 2023) name them as future work.
//
// An added word is one that a language model has only among its 1-grams. After any history, it
// costs the back-off of this history plus its own cost. After it, the history is empty:
//
//   p(word | history) = back-off(history) p(word),   cost = -ln p(word)
//
// The state without history is the one to which the start of an utterance backs off. The tokens of
// an added word lead from there back to it, by arcs with the topology of the graph. So a search
// finds the best path of a graph that was built with the word in its lexicon and among its 1-grams.
// The costs of such a graph differ only by its rounding, and by the arcs on which they lie.
//
// A phrase is added like a word, with one cost, but each of its words has its own arc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/graph.h"
#include "base/options.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

struct AddedPhrase {
  std::string text;                 // words with one space between them
  double cost = -1;                 // -ln p; below 0: the option's
  std::vector<std::string> tokens;  // tokens of a single word; empty: the tokenizer's
  std::string where;                // its place, for errors
};

/// The value of a decoder's option "words".
struct AddedWordOptions {
  std::filesystem::path path;        // lines of a phrase, its cost and its tokens; empty: none
  std::vector<AddedPhrase> phrases;  // in addition to those of the file
  double cost = 10;                  // cost of phrases that have none of their own
};
const OptionTable<AddedWordOptions>& added_word_options();

/// Reads lines that hold a phrase, or a phrase, a tab and its cost. A line may also hold a word, a
/// tab, its cost (which may be empty), a tab and its tokens with spaces between them. Plain or
/// gzip. Throws UserError with file and line for an empty phrase, and for a cost that is no number
/// from 0 to 1000.
std::vector<AddedPhrase> read_added_phrases(const std::filesystem::path& path);

/// A phrase with the tokens of each of its words.
struct SpelledPhrase {
  struct Word {
    std::string text;
    std::vector<int32_t> tokens;  // one at least
  };
  std::string text;
  std::vector<Word> words;  // one at least
  float cost = 0;

  std::vector<int32_t> tokens() const;  // of all words
};

/// Spells the phrases of the file and of the list. Throws UserError with the phrase's place if the
/// tokenizer cannot spell it or lacks one of its tokens, and if there is no phrase.
std::vector<SpelledPhrase> spelled_phrases(const AddedWordOptions& options,
                                           const Tokenizer& tokenizer);

/// Returns a graph in memory with the phrases. States of `graph` keep their numbers, and its words
/// too. Words that it lacks get the next numbers. A phrase of several words has a number for
/// itself, whose word() is the phrase, so that it can be boosted as a whole. Results show its first
/// word in its place (GraphView::shown()). Boosts of single words do not hold inside a phrase.
///
/// Throws UserError at `where` for a graph that `rtfx graph build` did not make with a topology of
/// CTC, since the topologies of others are not known.
WfstGraph with_phrases(const WfstGraph& graph, const std::vector<SpelledPhrase>& phrases,
                       const std::string& where);

}  // namespace rtfx
