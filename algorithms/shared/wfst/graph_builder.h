// L: the lexicon, from tokens to words.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/graph.h"
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

// G: a back-off n-gram model over words as an acceptor.

/// The words of the 1-grams of an ARPA file (plain or gzip) without <s> and </s>, sorted by their
/// bytes. Throws UserError, also when there is none.
std::vector<std::string> arpa_words(const std::filesystem::path& arpa);

/// A state for each history that an n-gram continues; an arc for each n-gram, to the longest such
/// history, with cost -ln p(word | history). Back-off: an arc with input `backoff` (#0), output
/// epsilon and cost -ln bow. </s> is a final cost; the start is the history <s>. A history that
/// nothing continues gets no state: its back-off weight is added to the arcs into it.
/// `word_id`: label of a word, 0 where it has none; n-grams with such a word are left out and
/// counted in *dropped.
TransducerArcs grammar_transducer(const std::filesystem::path& arpa,
                                  const std::function<int32_t(std::string_view)>& word_id,
                                  int32_t backoff, int64_t* dropped);

// T: from frame labels to tokens, the part of a CTC graph that drops blanks and repetitions.
// Topologies of Laptev et al., "CTC Variations Through New WFST Topologies", 2022.

/// normal: one state per token and an arc between each two of them. To emit the same token twice
/// takes a blank in between.
/// compact: the way to the next token is an epsilon arc back to state 0, so that V^2 arcs become
/// 3 V. The same token twice needs no blank in between, which adds paths and takes none away.
enum class Topology { normal, compact };

const std::vector<std::string>& topology_names();
std::string topology_name(Topology topology);
/// Throws UserError(where) for another name.
Topology parse_topology(const std::string& name, const std::string& where);

/// State 0 is before the first token and after a blank, state i just after token i - 1. Arcs:
///   normal   1 + 3 V + V (V - 1) + D (V + 1);  every state is final
///   compact  1 + 3 V + D;                      state 0 is final
/// The D loops epsilon:#k let disambiguation symbols of LG pass: with every state in `normal`, so
/// that a back-off before the first token is possible, too.
TransducerArcs token_transducer(Topology topology, const TokenLabels& labels);

// TLG from a tokenizer, a lexicon and an ARPA language model over words.
//
//   TLG = T o min(det(L o G))
//
// (Miao et al., "EESEN", 2015; here with subword pieces as tokens.)

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
