// Token ids to text, through SentencePiece.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace rtfx {

class Tokenizer {
 public:
  /// `model`: bytes of a SentencePiece .model; `where` names it in errors. Throws UserError.
  Tokenizer(const std::string& model, std::string_view where);
  ~Tokenizer();

  int64_t size() const;
  /// Detokenised text; prompt-like control pieces `<|...|>` are left out. Ids must be below size().
  std::string text(std::span<const int32_t> ids) const;
  std::string piece(int32_t id) const;
  int32_t unknown() const;  // id of the piece for what no other spells

 private:
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace rtfx
