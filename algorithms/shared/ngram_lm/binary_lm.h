// Whether the arrays of a language model are what searches rely on: they follow its indices without
// looking.
#pragma once

#include <filesystem>
#include <string>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

/// The first promise of NgramArrays that these arrays break ("state 7 backs off to a context that
/// is not one token shorter"); empty if they keep all. Arrays on the CPU, of the right sizes and
/// types; any values.
std::string unsoundness(const NgramArrays& arrays, int64_t vocabulary, int64_t order);

// Binary copies of language models, which load in a fraction of the time: a header, then the arrays
// as they are in memory, little endian. Beside `lm.arpa.gz` it is `lm.arpa.gz.ngpulm`.

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
