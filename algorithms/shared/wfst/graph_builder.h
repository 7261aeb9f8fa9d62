// Builds the decoding graph TLG from a tokenizer, a lexicon and an ARPA language model over words
// (Miao et al., "EESEN", 2015; here with subword tokens):
//
//   TLG = T o min(det(L o G))
//
// T maps labels of frames to tokens, L maps tokens to words, and G is the language model.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/graph.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Splits a line at blanks and tabs. The fields are views of it.
std::vector<std::string_view> split_fields(std::string_view line);

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
/// Always throws it for a probability that is none or is missing where most lines have one, and for
/// the symbols <eps>, #0, #1, ... in place of a word.
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

/// Returns the words of the 1-grams of an ARPA file (plain or gzip) without <s> and </s>, sorted by
/// their bytes. Throws UserError, also for a pipe, if there is no word, or if one is there twice.
std::vector<std::string> arpa_words(const std::filesystem::path& arpa);

/// Returns G, a back-off n-gram model over words as an acceptor. It has a state for each history
/// that an n-gram continues, and its start is the history <s>. Each n-gram is an arc to the longest
/// such history, with cost -ln p(word | history). Back-off is an arc with input `backoff` (#0),
/// output epsilon and cost -ln bow. </s> is a final cost. A history that no n-gram continues has no
/// state: its back-off weight is added to the arcs into it. `word_id` returns the label of a word,
/// 0 if it has none. N-grams with a word without label are left out and counted in *dropped. Throws
/// UserError, also for an n-gram that is there twice and for a model without </s>.
TransducerArcs grammar_transducer(const std::filesystem::path& arpa,
                                  const std::function<int32_t(std::string_view)>& word_id,
                                  int32_t backoff, int64_t* dropped);

/// The topologies of T (Laptev et al., "CTC Variations Through New WFST Topologies", 2022).
/// `normal` has one state for each token and an arc between each two of them. The same token can be
/// emitted twice only with a blank in between. `compact` goes to the next token by an epsilon arc
/// back to state 0, so that 3 V arcs take the place of V^2. In it the same token needs no blank in
/// between, which adds paths and removes none. `normal_riva` is `normal` as the decoder of the WFST
/// paper builds it (riva-asrlib-decoder): no word model backs off before the first token and after
/// a blank. This removes paths, so a first word that no bigram begins with costs more. `tokens` is
/// no topology of CTC: it has no blank and no repetition. It is made for searches that know which
/// of their labels are tokens, such as those of transducers.
enum class Topology { normal, compact, tokens, normal_riva };

const std::vector<std::string>& topology_names();
std::string topology_name(Topology topology);
/// Throws UserError(where) for an unknown name.
Topology parse_topology(const std::string& name, const std::string& where);

/// Returns T, the part of a CTC graph that drops blanks and repetitions. State 0 is before the
/// first token and after a blank, and state i is just after token i - 1. The numbers of arcs are
///   normal   1 + 3 V + V (V - 1) + D (V + 1);  every state is final
///   compact  1 + 3 V + D;                      state 0 is final
///   tokens   V + D;                            state 0 is the only one
/// D loops epsilon:#k let the disambiguation symbols of LG pass. In `normal`, every state has them,
/// so that a back-off before the first token is possible, too. In `normal_riva`, state 0 has none:
/// the number of arcs is 1 + 3 V + V (V - 1) + D V.
TransducerArcs token_transducer(Topology topology, const TokenLabels& labels);

class Tokenizer;

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

/// Returns a function from a word to its label: its position in the lexicon from 1 on, or 0 for an
/// unknown word. The lexicon must outlive the function.
std::function<int32_t(std::string_view)> word_labels(const Lexicon& lexicon);

/// Builds the graph and calls `progress` after each stage. Throws UserError for bad files, and for
/// a language model that has no word of the lexicon.
BuiltGraph build_graph(const Tokenizer& tokenizer, const GraphSources& sources,
                       const std::function<void(const GraphStage&)>& progress = {});

/// Which input label of an imported graph is blank.
///
///   last   V + 1, and tokens are token id + 1, as `rtfx graph build` has them
///   first  1, and tokens are token id + 2, as EESEN has them
///   none   the graph has tokens alone, token id + 1, and gets the topology `tokens`
///
/// With a blank, the labels of k2's arcs are columns of the network's output, so a blank that is
/// `first` has label 0. Each label is then counted up by one. Without a blank, k2's label 0 is
/// epsilon, and labels stay as they are.
enum class BlankLabel { last, first, none };

/// Imports a TLG, or an LG without blanks, that another tool made (read_openfst() in graph.h). Its
/// word table has lines "word id". If `blank` is not given, the start of the graph must show that
/// blank is `last`: a CTC graph stays there as long as blanks come. Throws UserError, also for an
/// input label beyond the tokens and blank, for the label of blank in spite of `none`, and for a
/// label without a word. It also throws for a word with a space, and for an <eps> with another id
/// than 0. It throws for arcs that write a symbol of the word table (#0, #1, ...), too.
WfstGraph import_graph(const Tokenizer& tokenizer, const std::filesystem::path& openfst,
                       const std::filesystem::path& word_table,
                       std::optional<BlankLabel> blank = std::nullopt);

}  // namespace rtfx
