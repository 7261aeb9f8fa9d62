// Binary copies of language models, which load in a fraction of the time. The file has a header and
// then the arrays as they are in memory, little endian. The copy of `lm.arpa.gz` is
// `lm.arpa.gz.ngpulm`.
#pragma once

#include <filesystem>
#include <string>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

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

}  // namespace rtfx
