// Token ids to text, as NeMo writes it for its checkpoints and transformers for Hugging Face
// folders, and to words, for every kind of vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// A vocabulary and the rule that joins its pieces. Ids are those of the model without its blank.
/// A tokenizer never changes; its functions may be called from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// "sentencepiece", "characters", "wordpiece", "aggregate" or "tokenizer.json".
  virtual std::string kind() const = 0;
  virtual int64_t size() const = 0;
  /// The piece in the vocabulary's spelling, in UTF-8. `id` must be from 0 to size() - 1.
  virtual std::string piece(int32_t id) const = 0;
  /// Id of the piece for what no other spells; -1 where there is none.
  virtual int32_t unknown() const = 0;

  /// `text` (UTF-8) as the vocabulary's own rules rewrite it before its pieces are looked up; as it
  /// is for a kind without such rules. Of SentencePiece's rules, those that have a name are known.
  virtual std::string normalized(std::string_view text) const;

  /// The ids of `text` (UTF-8) by the rule of the kind, which may hold unknown(); empty for a kind
  /// that has no rule here (tokenizers/spelling.h has one for all). The text is taken as it is: see
  /// normalized().
  virtual std::vector<int32_t> encode(std::string_view text) const;

  /// The pieces of `ids` joined by the rule of the kind, in UTF-8; each id must be from 0 to
  /// size() - 1. Then, for the kinds of NeMo, one white-space character is left out before each
  /// punctuation mark that the vocabulary holds (see tokenizers/pieces.h). White space at the
  /// ends is as NeMo's: an aggregate's text usually begins with a space. Tags of languages stay,
  /// unless the tokenizer is one of without_language_tags().
  std::string text(std::span<const int32_t> ids) const;

 protected:
  /// `marks`: punctuation that takes no space before it, sorted; none leaves the text as joined.
  explicit Tokenizer(std::u32string marks = {}) : marks_(std::move(marks)) {}
  virtual std::string join(std::span<const int32_t> ids) const = 0;

 private:
  std::u32string marks_;
};

/// A word and its tokens, ids [first, first + count).
struct TokenWord {
  std::string text;  // as Tokenizer::text() has it, without white space around it
  size_t first = 0, count = 0;
  /// Tokens of it before the punctuation that it ends with; all of a word of punctuation alone.
  size_t spoken = 0;
  bool joined = false;  // no space stands between it and the word before

  bool operator==(const TokenWord&) const = default;
};

/// The words of `ids` in their order. With one space between them, unless they are joined, they are
/// the text without white space at its ends and without runs of it. A word begins where the text
/// has white space before a token, so punctuation that the tokenizer joins to a word belongs to
/// that word. Tokens of white space alone belong to a word only where they lie within it. Text of
/// scripts without spaces is divided by words_without_spaces() (pieces.h); two words may share a
/// token.
std::vector<TokenWord> token_words(const Tokenizer& tokenizer, std::span<const int32_t> ids);

}  // namespace rtfx
