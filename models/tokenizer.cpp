#include "models/tokenizer.h"

#include <sentencepiece_processor.h>

#include <vector>

#include "base/error.h"

namespace rtfx {

Tokenizer::Tokenizer(const std::string& model, std::string_view where)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const auto status = processor_->LoadFromSerializedProto(model);
  if (!status.ok()) {
    throw UserError(where, "not a SentencePiece model (" + status.ToString() + ")",
                    "only SentencePiece tokenizers (type: bpe) are supported");
  }
}

Tokenizer::~Tokenizer() = default;

int64_t Tokenizer::size() const { return processor_->GetPieceSize(); }

std::string Tokenizer::piece(int32_t id) const { return processor_->IdToPiece(id); }

int32_t Tokenizer::unknown() const { return processor_->unk_id(); }

std::string Tokenizer::text(std::span<const int32_t> ids) const {
  std::vector<int> kept;
  for (const int32_t id : ids) {
    const std::string& piece = processor_->IdToPiece(id);
    if (!(piece.starts_with("<|") && piece.ends_with("|>"))) kept.push_back(id);
  }
  return processor_->DecodeIds(kept);
}

}  // namespace rtfx
