// TLG from a tokenizer, a lexicon and an ARPA language model over words.
//
//   TLG = T o min(det(L o G))
//
// (Miao et al., "EESEN", 2015; here with subword pieces as tokens.)
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/lexicon.h"
#include "algorithms/shared/wfst/topology.h"

namespace rtfx {

class Tokenizer;

struct GraphSources {
  std::filesystem::path lexicon, arpa;  // plain or gzip
  Topology topology = Topology::compact;
  bool drop_unspelled = false;  // leave out words that the tokenizer cannot spell
};

/// One step of building.
struct GraphStage {
  std::string name;  // "L", "G", "L o G", "min(det(L o G))", "T", "TLG"
  int64_t states = 0, arcs = 0;
  double seconds = 0;
  int64_t peak_bytes = 0;  // resident memory of the process, the most so far
};

struct BuiltGraph {
  WfstGraph graph;
  std::vector<GraphStage> stages;
  int64_t words = 0;
  int64_t dropped_words = 0;   // lines of the lexicon left out
  int64_t dropped_ngrams = 0;  // with a word that the lexicon lacks
};

/// SHA-256 over the pieces in the order of their ids: what a graph and a model must agree on.
std::string tokenizer_checksum(const Tokenizer& tokenizer);

/// The spellings of the words that the lexicon and the language model have in common. Lines that
/// were left out are counted in *dropped. Throws UserError for bad files and where there is no such
/// word.
Lexicon common_lexicon(const Tokenizer& tokenizer, const GraphSources& sources, int64_t* dropped);

/// Of a word its label, the place in the lexicon from 1 on; 0 for others. The lexicon must outlive
/// it.
std::function<int32_t(std::string_view)> word_labels(const Lexicon& lexicon);

/// `progress` is called after each stage. Throws UserError for bad files and for a language model
/// none of whose words is in the lexicon.
BuiltGraph build_graph(const Tokenizer& tokenizer, const GraphSources& sources,
                       const std::function<void(const GraphStage&)>& progress = {});

/// A TLG that other tools made: an OpenFst file whose input labels are token id + 1 and V + 1 for
/// blank, and its word table, lines "word id". Throws UserError.
WfstGraph import_graph(const Tokenizer& tokenizer, const std::filesystem::path& openfst,
                       const std::filesystem::path& word_table);

}  // namespace rtfx
