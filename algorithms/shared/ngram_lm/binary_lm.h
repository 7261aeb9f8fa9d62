// Binary copies of language models, which load in a fraction of the time: a header, then the arrays
// as they are in memory, little endian. Beside `lm.arpa.gz` it is `lm.arpa.gz.ngpulm`.
#pragma once

#include <filesystem>
#include <string>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

std::filesystem::path binary_copy_of(const std::filesystem::path& arpa);

/// By its first bytes.
bool is_binary_lm(const std::filesystem::path& path);

/// Onto the CPU, with the weight of unknown tokens as it stands in the source. Throws UserError
/// when the file is damaged, of another version, made for another vocabulary, larger than
/// `memory_limit` (bytes; 0: none), or unsound: an index out of bounds, a weight that is none, a
/// back-off that goes round. A copy of an ARPA file must be of that with `source_sha256`; empty for
/// a file that the user names.
NgramLm read_binary_lm(const std::filesystem::path& path, int64_t vocabulary,
                       const std::string& source_sha256, int64_t memory_limit);

/// Replaces the file in one step. Throws UserError when it cannot be written.
void write_binary_lm(const NgramLm& lm, const std::filesystem::path& path,
                     const std::string& source_sha256);

}  // namespace rtfx
