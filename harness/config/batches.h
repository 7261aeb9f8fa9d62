// Which utterances go together: pure functions of their lengths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/config.h"

namespace rtfx {

/// Indices into `seconds`, in batches. sort: "duration_desc", "duration_asc", "none" (as given) or
/// "shuffle" (by seed); equal lengths keep their order. By seconds, a batch grows while its count
/// times its longest utterance stays within the limit; an utterance above the limit goes alone.
std::vector<std::vector<size_t>> make_batches(const std::vector<double>& seconds,
                                              const std::string& sort, const BatchRule& rule,
                                              int64_t seed);

/// The order in which `count` decoders run in a round: a seeded permutation, reversed every other
/// round (A B B A A B B A ...), so that no decoder always runs on a warmer machine.
std::vector<size_t> round_order(size_t count, int64_t round, int64_t seed);

}  // namespace rtfx
