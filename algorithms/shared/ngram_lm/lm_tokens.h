// The words of a token-level language model file as token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace rtfx
