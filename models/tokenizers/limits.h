// Limits that no vocabulary exceeds, so that a damaged file does not take the machine's memory.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace rtfx {

/// The largest file in bytes; the objects built from it may take 30 times as much.
constexpr size_t kMostTokenizerBytes = size_t{32} << 20;
/// The largest vocabulary. Speech models have at most 16,384 pieces.
constexpr size_t kMostPieces = size_t{1} << 20;

/// Throws UserError where the bytes of the file `where` are too many.
inline void check_size(std::string_view bytes, std::string_view where) {
  if (bytes.size() <= kMostTokenizerBytes) return;
  throw UserError(where, fmt::format("{} bytes are too many for a tokenizer", bytes.size()),
                  "give the tokenizer of a speech model");
}

/// Throws UserError where the pieces of the file `where` are too many.
inline void check_count(size_t pieces, std::string_view where) {
  if (pieces <= kMostPieces) return;
  throw UserError(where, fmt::format("{} pieces are too many for a tokenizer", pieces),
                  "give the tokenizer of a speech model");
}

}  // namespace rtfx
