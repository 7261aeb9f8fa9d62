// CTC with a lexicon and a language model over words, without a decoding graph: prefix beam search
// on the CPU, with one utterance for each thread. PrefixSearch has the algorithm, and
// algorithms/shared/wfst/search.h has the objective. The decoder serves for comparison with the
// searches over graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/added_words.h"
#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/lexicon.h"
#include "algorithms/shared/wfst/search.h"
#include "base/options.h"

namespace rtfx {

// This is a prefix beam search with a lexicon tree and a word language model, without a decoding
// graph. It is the decoder of Collobert et al., "Wav2Letter", 2016, and of Pratap et al.,
// "wav2letter++", 2019. It has the objective of algorithms/shared/wfst/search.h in the normal
// topology, with one difference. It takes the longest n-gram that the model has, whereas a path of
// a graph may also back off if that costs less. Where no back-off costs less, a wide beam reaches
// the optimum of the graph, up to the rounding of determinisation.

/// A back-off language model over words, which scores one word after the other.
class WordLm {
 public:
  struct Step {
    int32_t state = 0;
    float cost = 0;  // -ln p(word | history)
  };

  /// `grammar` comes from grammar_transducer(); its back-off arcs have the input `backoff`.
  WordLm(const TransducerArcs& grammar, int32_t backoff);

  int32_t start() const { return start_; }
  /// Returns the state without history, which has no back-off.
  int32_t empty() const { return empty_; }
  /// Returns the step of the longest history that has the word, nothing if no history has it.
  std::optional<Step> next(int32_t state, int32_t word) const;
  /// Returns -ln p(</s> | history), +infinity without </s>.
  float final_cost(int32_t state) const;

 private:
  struct Arc {
    int32_t word, to;
    float cost;
  };
  int32_t start_ = 0, empty_ = 0;
  std::vector<int32_t> begin_;  // [states + 1] in arcs_, which are sorted by word within a state
  std::vector<Arc> arcs_;
  std::vector<Step> backoff_;  // [states]; state -1: none
  std::vector<float> final_cost_;
};

/// The spellings of all words as a tree of tokens. Node 0 is the root. Any number of threads may
/// read the tree while no spelling is added.
class LexiconTree {
 public:
  struct Node {
    std::vector<std::pair<int32_t, int32_t>> children;  // token and node, sorted by token
    std::vector<std::pair<int32_t, float>> words;  // words that end here: number in the lexicon
                                                   // from 1, and cost of this spelling
    float look_ahead = 0;  // least cost of a word below, without history; 0 at the root
  };

  LexiconTree(const Lexicon& lexicon, const WordLm& lm);
  /// Adds a spelling of a word. `own` is its cost, -ln p(spelling | word). The word need not be in
  /// the language model.
  void add(int32_t word, const std::vector<int32_t>& spelling, float own, const WordLm& lm);
  const Node& node(int32_t i) const { return nodes_[static_cast<size_t>(i)]; }

 private:
  std::vector<Node> nodes_;
};

struct PrefixSearchLimits {
  float beam = 17;           // hypotheses are kept up to this cost above the best, in scaled units
  int64_t beam_size = 500;   // number of hypotheses that are kept at a frame
  int64_t beam_tokens = 32;  // number of tokens that are tried at a frame
};

/// Searches one utterance at a time. A hypothesis is a history, a node of the tree and the token of
/// the frame before (none after a blank). The better one of equal hypotheses is kept.
class PrefixSearch {
 public:
  /// The references must outlive the search.
  PrefixSearch(const LexiconTree& tree, const WordLm& lm, PrefixSearchLimits limits)
      : tree_(tree), lm_(lm), limits_(limits) {}

  /// Searches `frames` rows of `columns` scaled log-probabilities: see ViterbiSearch::run(). The
  /// frame of a word is the frame of its last token.
  WfstPath run(const float* lp, int64_t frames, int32_t columns);

 private:
  struct Hypothesis {
    int32_t history, node, last;  // `last` is -1 after a blank and at the start
    float cost;                   // includes the look-ahead of `node`
    int32_t trace;                // trace of its last token; of the one before while `token` is set
    int32_t token = -1, word = 0;  // token and word of this frame, before they have a trace
  };
  struct Trace {
    int32_t previous, token, word, frame;  // word is 0 unless this token ends one
  };

  void best_tokens(const float* lp, int32_t blank);
  void expand(const Hypothesis& h, const float* lp, int32_t blank);
  void prune();
  void add_traces(int32_t frame);

  const LexiconTree& tree_;
  const WordLm& lm_;
  PrefixSearchLimits limits_;
  std::vector<Hypothesis> kept_, next_;
  std::vector<Trace> traces_;
  std::vector<int32_t> tokens_;  // scratch of best_tokens()
  std::vector<bool> tried_;      // [columns] whether a token is tried at this frame
};

struct CtcLexiconCpuOptions {
  std::filesystem::path lexicon, lm;
  std::optional<AddedWordOptions> words;  // in addition to those of the lexicon
  double acoustic_scale = 1 / 0.55;
  double beam = 17;
  int64_t beam_size = 500, beam_tokens = 32;
  double blank_penalty = 0;  // subtracted from blank's logit, see blank_penalty.h
  int64_t threads = 0;       // upper bound of the number of threads; 0: all threads of LibTorch

  static const OptionTable<CtcLexiconCpuOptions>& table();
};

/// Results and their marks are those of the searches over graphs: words are those of the lexicon
/// and of the option "words", and the score is minus the cost. For a model on a GPU, decode() waits
/// once for the log-probabilities.
class CtcLexiconCpu : public DecoderBase<CtcLexiconCpuOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override;
  /// Reads lexicon and language model. Throws UserError for bad files and for a model without a
  /// tokenizer.
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  /// not_final is the number of rows whose text ends within a word, or where the language model has
  /// no end of a sentence. The other counter is host_reads.
  Counters counters() const override {
    return {{"host_reads", reads_.count()}, {"not_final", not_final_}};
  }

 private:
  /// Divides the added phrases of a path into their words, each at the frame of its last token.
  void divide_phrases(WfstPath& path) const;

  std::shared_ptr<const AcousticModel> model_;
  std::vector<std::string> words_;      // word i + 1 is words_[i]
  std::vector<SpelledPhrase> phrases_;  // phrase i is found as word lexicon_words_ + 1 + i
  std::vector<int32_t> first_words_;    // number of each phrase's first word
  int32_t lexicon_words_ = 0;
  std::optional<WordLm> lm_;
  std::optional<LexiconTree> tree_;
  std::vector<PrefixSearch> searches_;  // one per thread
  HostReads reads_;
  int64_t not_final_ = 0;  // rows of the last decode()
};

}  // namespace rtfx
