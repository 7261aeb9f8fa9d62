// What OpenFst does for a decoding graph: composition, determinisation, minimisation.
// Mohri, Pereira, Riley, "Speech Recognition with Weighted Finite-State Transducers", 2008.
//
// C++17, as its source is: OpenFst 1.7.9, the one of Debian 12 and Ubuntu 24.04, is not C++20.
#pragma once

#include "algorithms/shared/wfst/transducer_arcs.h"

namespace rtfx {

/// left o right, without states that lie on no path from the start to a final state.
TransducerArcs compose(const TransducerArcs& left, const TransducerArcs& right);

/// min(det(t)). Determinised in the log semiring: costs of merged prefixes are summed as
/// probabilities, which moves them towards the start. Then costs are rounded to multiples of 2^-10,
/// and states that are equal so are merged. The result is sorted by input label.
/// `t` must be functional and have the twins property: what disambiguation symbols are for.
TransducerArcs determinize_and_minimize(const TransducerArcs& t);

}  // namespace rtfx
