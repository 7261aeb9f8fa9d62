// Language models from files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

// Binary copies of language models, which load in a fraction of the time. The file has a header and
// then the arrays as they are in memory, little endian. The copy of `lm.arpa.gz` is
// `lm.arpa.gz.ngpulm`.

/// Returns the path of the binary copy of a language model.
std::filesystem::path binary_copy_of(const std::filesystem::path& arpa);

/// Tells by the first bytes whether the file is a binary language model.
bool is_binary_lm(const std::filesystem::path& path);

/// Reads a model onto the CPU, with the weights of unknown tokens as in its source. A copy of an
/// ARPA file must stem from the file with checksum `source_sha256`; the checksum is empty for a
/// file that the user names. Throws UserError if the file is damaged, has another version or
/// vocabulary, or is larger than `memory_limit` bytes (0: no limit). It also checks everything that
/// searches rely on: indices within bounds, weights that are logarithms, back-off without cycles.
NgramLm read_binary_lm(const std::filesystem::path& path, int64_t vocabulary,
                       const std::string& source_sha256, int64_t memory_limit);

/// Replaces the file in one step. Throws UserError if the file cannot be written.
void write_binary_lm(const NgramLm& lm, const std::filesystem::path& path,
                     const std::string& source_sha256);

struct LoadLmOptions {
  bool normalize_unk = true;  // unknown tokens share p(<unk>) evenly; else each has all of it
  bool cache = false;         // keep a binary copy beside the file and read it the next time
  int64_t memory_limit = 0;   // bytes; 0: no limit. Checked before any array is allocated
};

/// Reads an ARPA file (plain or gzip) or a binary copy of one onto the CPU.
///
/// Tokens in the file are ids below `vocabulary`. A file writes them in one of two forms: decimal
/// numbers, or single characters with code point id + 100, as NeMo's scripts do. The beginning and
/// the end of every n-gram must be n-grams too, as in files of KenLM's lmplz. Each unknown token
/// has the weight of <unk>, or -inf if the file has no <unk>. Throws UserError with file and line
/// for everything that is not a language model over these tokens, and for a pipe.
NgramLm load_ngram_lm(const std::filesystem::path& path, int64_t vocabulary,
                      const LoadLmOptions& options);

}  // namespace rtfx
