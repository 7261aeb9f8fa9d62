// A back-off language model over words, asked for one word after the other: G as an automaton.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "algorithms/shared/wfst/search.h"

namespace rtfx {

class WordLm {
 public:
  struct Step {
    int32_t state = 0;
    float cost = 0;  // -ln p(word | history)
  };

  /// `grammar`: of grammar_transducer(), whose back-off arcs have the input `backoff`.
  WordLm(const TransducerArcs& grammar, int32_t backoff);

  int32_t start() const { return start_; }
  /// The state without history: the one that none backs off from.
  int32_t empty() const { return empty_; }
  /// The longest history that has the word decides; none if not even the shortest has it.
  std::optional<Step> next(int32_t state, int32_t word) const;
  /// -ln p(</s> | history); +infinity without </s>.
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

// Prefix beam search with a lexicon tree and a word language model (the decoder of Collobert et
// al., "Wav2Letter", 2016, and of Pratap et al., "wav2letter++", 2019), without a graph: another
// way to the objective of algorithms/shared/wfst/search.h in the normal topology, which it reaches
// with a wide beam but for what determinisation rounds.

/// The spellings of all words as a tree of tokens; node 0 is the root. Immutable, for any threads.
class LexiconTree {
 public:
  struct Node {
    std::vector<std::pair<int32_t, int32_t>> children;  // token, node; by token
    std::vector<int32_t> words;  // that end here: i-th of the lexicon, from 1
    float look_ahead = 0;        // least cost of a word below, without history; 0 at the root
  };

  LexiconTree(const Lexicon& lexicon, const WordLm& lm);
  const Node& node(int32_t i) const { return nodes_[static_cast<size_t>(i)]; }

 private:
  std::vector<Node> nodes_;
};

struct PrefixSearchLimits {
  float beam = 17;           // costs above the best that are kept, in scaled units
  int64_t beam_size = 500;   // hypotheses that are kept at a frame
  int64_t beam_tokens = 32;  // tokens of a frame that are tried
};

/// One utterance at a time. A hypothesis is a history, a place in the tree and the token of the
/// frame before (none after a blank): of equal ones the better is kept.
class PrefixSearch {
 public:
  /// The references must outlive the search.
  PrefixSearch(const LexiconTree& tree, const WordLm& lm, PrefixSearchLimits limits)
      : tree_(tree), lm_(lm), limits_(limits) {}

  /// lp as ViterbiSearch::run() takes it, of `columns` columns. A word's frame is that of its last
  /// token.
  WfstPath run(const float* lp, int64_t frames, int32_t columns);

 private:
  struct Hypothesis {
    int32_t history, node, last;   // `last`: -1 after a blank and at the start
    float cost;                    // with the look-ahead of `node`
    int32_t trace;                 // of its last token; while `token` is set, of the one before
    int32_t token = -1, word = 0;  // that it has just got; no trace has them yet
  };
  struct Trace {
    int32_t previous, token, word, frame;  // word: 0 unless this token ends it
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
  std::vector<int32_t> tokens_;  // by their probability
  std::vector<bool> tried_;      // [columns]
};

}  // namespace rtfx
