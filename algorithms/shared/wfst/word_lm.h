// A back-off language model over words, asked for one word after the other: G as an automaton.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/shared/wfst/transducer_arcs.h"

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

}  // namespace rtfx
