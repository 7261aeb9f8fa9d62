// Language models from files.
#pragma once

#include <cstdint>
#include <filesystem>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

struct LoadLmOptions {
  bool normalize_unk = true;  // unknown tokens share p(<unk>) evenly; else each has all of it
  bool cache = false;         // keep a binary copy beside the file and read it the next time
  int64_t memory_limit = 0;   // bytes; 0: no limit. Checked before any array is allocated
};

/// Reads an ARPA file (plain or gzip) or a binary copy of one (binary_lm.h) onto the CPU.
///
/// Tokens in the file are ids below `vocabulary`. A file writes them in one of two forms: decimal
/// numbers, or single characters with code point id + 100, as NeMo's scripts do. The beginning and
/// the end of every n-gram must be n-grams too, as in files of KenLM's lmplz. Each unknown token
/// has the weight of <unk>, or -inf if the file has no <unk>. Throws UserError with file and line
/// for everything that is not a language model over these tokens.
NgramLm load_ngram_lm(const std::filesystem::path& path, int64_t vocabulary,
                      const LoadLmOptions& options);

}  // namespace rtfx
