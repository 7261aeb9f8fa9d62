// Language models from files.
#pragma once

#include <cstdint>
#include <filesystem>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

struct LoadLmOptions {
  bool normalize_unk = true;  // unknown tokens share p(<unk>) evenly instead of having it each
  bool cache = false;         // keep a binary copy beside the file and read that the next time
  int64_t memory_limit = 0;   // bytes; 0: none. Checked before anything is allocated
};

/// Reads an ARPA file (plain or gzip) or a binary copy of one (binary_lm.h) onto the CPU.
///
/// Tokens in the file are ids below `vocabulary`, in one of two forms: decimal numbers, or single
/// characters with code point id + 100, as NeMo's scripts train them. Throws UserError with file
/// and line for everything that is not a language model over these tokens.
NgramLm load_ngram_lm(const std::filesystem::path& path, int64_t vocabulary,
                      const LoadLmOptions& options);

}  // namespace rtfx
