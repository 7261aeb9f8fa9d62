// From an ARPA file to the arrays of a language model.
#pragma once

#include <filesystem>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

/// On the CPU. Each unknown token has the weight of <unk> as it stands in the file, -inf if it does
/// not. Beginning and end of every n-gram must be n-grams too, as they are in what KenLM's lmplz
/// writes. `memory_limit`: see LoadLmOptions. Throws UserError with file and line.
NgramLm build_from_arpa(const std::filesystem::path& path, int64_t vocabulary,
                        int64_t memory_limit);

}  // namespace rtfx
