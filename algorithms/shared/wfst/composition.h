// A weighted finite-state transducer as plain lists: what the parts T, L and G are written in, and
// what OpenFst (composition.h) takes and gives. Weights are costs, -ln p. Label 0 is epsilon.
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

/// Input labels of L and T's outputs: epsilon 0, tokens 1..V (token id + 1), blank V + 1 and the
/// disambiguation symbols #0 (back-off), #1, ... after it.
struct TokenLabels {
  int32_t tokens = 0;          // V
  int32_t disambiguation = 1;  // D: how many # there are, #0 included

  int32_t blank() const { return tokens + 1; }
  int32_t symbol(int32_t k) const { return tokens + 2 + k; }
};

// What OpenFst does for a decoding graph: composition, determinisation, minimisation.
// Mohri, Pereira, Riley, "Speech Recognition with Weighted Finite-State Transducers", 2008.
//
// C++17, as its source is: OpenFst 1.7.9, the one of Debian 12 and Ubuntu 24.04, is not C++20.

/// left o right, without states that lie on no path from the start to a final state.
TransducerArcs compose(const TransducerArcs& left, const TransducerArcs& right);

/// min(det(t)). Determinised in the log semiring: costs of merged prefixes are summed as
/// probabilities, which moves them towards the start. Then costs are rounded to multiples of 2^-10,
/// and states that are equal so are merged. The result is sorted by input label.
/// `t` must be functional and have the twins property: what disambiguation symbols are for.
TransducerArcs determinize_and_minimize(const TransducerArcs& t);

}  // namespace rtfx
