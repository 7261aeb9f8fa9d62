// Builds the decoding graph TLG from a tokenizer, a lexicon and an ARPA language model over words
// (Miao et al., "EESEN", 2015; here with subword tokens):
//
//   TLG = T o min(det(L o G))
//
// T maps labels of frames to tokens, L maps tokens to words, and G is the language model.
// lexicon.h, grammar.h and topology.h make the three.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/lexicon.h"
#include "algorithms/shared/wfst/topology.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

struct GraphSources {
  std::filesystem::path lexicon, arpa;  // plain or gzip
  Topology topology = Topology::compact;
  bool drop_unspelled = false;  // leaves out words that the tokenizer cannot spell
};

/// One step of building.
struct GraphStage {
  std::string name;  // "L", "G", "L o G", "min(det(L o G))", "T", "TLG"
  int64_t states = 0, arcs = 0;
  double seconds = 0;
  int64_t peak_bytes = 0;  // peak of the process's resident memory so far
};

struct BuiltGraph {
  WfstGraph graph;
  std::vector<GraphStage> stages;
  int64_t words = 0;
  int64_t dropped_words = 0;   // lines of the lexicon that cannot be spelled
  int64_t unwanted_words = 0;  // words of the lexicon that the language model lacks
  int64_t dropped_ngrams = 0;  // n-grams with a word that the lexicon lacks
};

/// Returns SHA-256 over all tokens in the order of their ids. A graph and a model must agree on it.
std::string tokenizer_checksum(const Tokenizer& tokenizer);

/// Returns the spellings of the words that lexicon and language model have in common. Lines that
/// cannot be spelled are counted in *dropped. Words of the lexicon that the language model lacks
/// are counted in *unwanted unless it is null. Throws UserError for bad files, and if there is no
/// common word.
Lexicon common_lexicon(const Tokenizer& tokenizer, const GraphSources& sources, int64_t* dropped,
                       int64_t* unwanted = nullptr);

/// Builds the graph and calls `progress` after each stage. Throws UserError for bad files, and for
/// a language model that has no word of the lexicon.
BuiltGraph build_graph(const Tokenizer& tokenizer, const GraphSources& sources,
                       const std::function<void(const GraphStage&)>& progress = {});

}  // namespace rtfx
