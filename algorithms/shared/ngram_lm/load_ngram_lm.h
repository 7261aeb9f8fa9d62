// The words of a token-level language model file as token ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

/// Two written forms of token id i, one of them throughout a file: the decimal number i, or the one
/// character with code point i + 100 in UTF-8, as NeMo's scripts write it.
class LmTokens {
 public:
  static constexpr int32_t kStart = -1;    // <s>
  static constexpr int32_t kEnd = -2;      // </s>
  static constexpr int32_t kUnknown = -3;  // <unk>
  static constexpr int32_t kNone = -4;     // no such word

  explicit LmTokens(int64_t vocabulary) : added_(static_cast<size_t>(vocabulary)) {}

  /// The id, below the vocabulary, of a word of the 1-grams, or one of the constants (not kNone).
  /// Throws UserError(where) for a word that is neither, is in another form than those before it,
  /// or is there twice.
  int32_t add(std::string_view word, const std::string& where);

  /// The same of a word of longer n-grams; kNone if it was not added.
  int32_t find(std::string_view word) const;

 private:
  enum class Form { undecided, number, character };
  int64_t vocabulary() const { return static_cast<int64_t>(added_.size()); }

  std::vector<char> added_;  // by id
  Form form_ = Form::undecided;
};

// From an ARPA file to the arrays of a language model.

/// On the CPU. Each unknown token has the weight of <unk> as it stands in the file, -inf if it does
/// not. Beginning and end of every n-gram must be n-grams too, as they are in what KenLM's lmplz
/// writes. `memory_limit`: see LoadLmOptions. Throws UserError with file and line.
NgramLm build_from_arpa(const std::filesystem::path& path, int64_t vocabulary,
                        int64_t memory_limit);

// Language models from files.

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
