// Weighted finite-state transducers as plain lists, and the operations of OpenFst on them. Weights
// are costs, -ln p. Label 0 is epsilon. See Mohri, Pereira, Riley, "Speech Recognition with
// Weighted Finite-State Transducers", 2008.
//
// This header and its source are C++17, since OpenFst 1.7.9 (of Debian 12 and Ubuntu 24.04) is not
// C++20.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace rtfx {

struct TransducerArcs {
  struct Arc {
    int32_t from = 0, to = 0, input = 0, output = 0;
    float cost = 0;
  };
  int32_t states = 0;
  int32_t start = 0;
  std::vector<Arc> arcs;
  std::vector<std::pair<int32_t, float>> finals;  // state, cost

  int32_t add_state() { return states++; }
  void add(int32_t from, int32_t to, int32_t input, int32_t output, float cost = 0) {
    arcs.push_back({from, to, input, output, cost});
  }
};

/// Labels of tokens, which are the inputs of L and the outputs of T: epsilon is 0, tokens are 1..V
/// (token id + 1), blank is V + 1. The disambiguation symbols #0 (back-off), #1, ... follow.
struct TokenLabels {
  int32_t tokens = 0;          // V
  int32_t disambiguation = 1;  // D: number of disambiguation symbols, #0 included

  int32_t blank() const { return tokens + 1; }
  int32_t symbol(int32_t k) const { return tokens + 2 + k; }
};

/// Returns left o right, without states that lie on no path from the start to a final state.
TransducerArcs compose(const TransducerArcs& left, const TransducerArcs& right);

/// Returns min(det(t)), sorted by input label. Determinisation is in the log semiring: costs of
/// merged prefixes are summed as probabilities, which moves costs towards the start. Then costs are
/// rounded to multiples of 2^-10, and states that are equal after that are merged. `t` must be
/// functional and have the twins property, which disambiguation symbols ensure.
TransducerArcs determinize_and_minimize(const TransducerArcs& t);

}  // namespace rtfx
