// Converts token ids to text and to words, for every kind of vocabulary. Text is as NeMo writes it
// for its checkpoints, and as transformers writes it for Hugging Face folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// A vocabulary and the rule that joins its pieces. Ids are those of the model without its blank. A
/// tokenizer never changes, and several threads may call its functions.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Returns "sentencepiece", "characters", "wordpiece", "aggregate" or "tokenizer.json".
  virtual std::string kind() const = 0;
  virtual int64_t size() const = 0;
  /// Returns the piece in the vocabulary's spelling, in UTF-8. `id` must be from 0 to size() - 1.
  virtual std::string piece(int32_t id) const = 0;
  /// Returns the id of the piece for text that no other piece spells, or -1 where there is none.
  virtual int32_t unknown() const = 0;

  /// Returns `text` (UTF-8) as the vocabulary's own rules rewrite it before its pieces are looked
  /// up. A kind without such rules returns it unchanged. Only those rules of SentencePiece that
  /// have a name are known.
  virtual std::string normalized(std::string_view text) const;

  /// Returns the ids of `text` (UTF-8) by the rule of the kind. They may contain unknown(). The
  /// result is empty for a kind that has no rule here (tokenizers/spelling.h has one for all). The
  /// text is taken as it is, without normalized().
  virtual std::vector<int32_t> encode(std::string_view text) const;

  /// Returns the text of `ids` in UTF-8: the pieces, joined by the rule of the kind. Each id must
  /// be from 0 to size() - 1. The kinds of NeMo then leave out one white-space character before
  /// each punctuation mark that the vocabulary holds (see tokenizers/pieces.h). White space at the
  /// ends is as in NeMo: an aggregate's text usually begins with a space. Language tags stay,
  /// unless the tokenizer is one of without_language_tags().
  std::string text(std::span<const int32_t> ids) const;

 protected:
  /// `marks` is the punctuation that takes no space before it, sorted. Without marks, the joined
  /// text stays unchanged.
  explicit Tokenizer(std::u32string marks = {}) : marks_(std::move(marks)) {}
  virtual std::string join(std::span<const int32_t> ids) const = 0;

 private:
  std::u32string marks_;
};

/// A word and its tokens, ids [first, first + count).
struct TokenWord {
  std::string text;  // part of Tokenizer::text(), without white space around it
  size_t first = 0, count = 0;
  /// The number of tokens before the punctuation at the word's end. A word that is only punctuation
  /// counts all its tokens.
  size_t spoken = 0;
  bool joined = false;  // no space stands between it and the word before

  bool operator==(const TokenWord&) const = default;
};

/// Returns the words of `ids` in their order. Written with one space between them, or none where
/// they are joined, they give the text. Only white space at its ends and runs of white space are
/// missing.
///
/// A word begins where the text has white space before a token. Punctuation that the tokenizer
/// joins to a word therefore belongs to that word. Tokens of white space alone belong to a word
/// only where they lie within it. words_without_spaces() (pieces.h) divides text of scripts without
/// spaces. Two of its words may share a token.
std::vector<TokenWord> token_words(const Tokenizer& tokenizer, std::span<const int32_t> ids);

}  // namespace rtfx
