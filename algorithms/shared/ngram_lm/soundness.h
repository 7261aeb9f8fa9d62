// Whether the arrays of a language model are what searches rely on: they follow its indices without
// looking.
#pragma once

#include <string>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

/// The first promise of NgramArrays that these arrays break ("state 7 backs off to a context that
/// is not one token shorter"); empty if they keep all. Arrays on the CPU, of the right sizes and
/// types; any values.
std::string unsoundness(const NgramArrays& arrays, int64_t vocabulary, int64_t order);

}  // namespace rtfx
