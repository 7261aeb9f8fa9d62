#include "models/tokenizers/sentencepiece.h"

#include <sentencepiece_processor.h>

#include "base/error.h"
#include "models/tokenizers/punctuation.h"
#include "models/tokenizers/sentencepiece_message.h"

namespace rtfx {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

std::vector<std::string> pieces_of(const Processor& processor) {
  std::vector<std::string> pieces;
  for (int id = 0; id < processor.GetPieceSize(); ++id) pieces.push_back(processor.IdToPiece(id));
  return pieces;
}

class SentencePieces : public Tokenizer {
 public:
  SentencePieces(std::unique_ptr<const Processor> processor, const std::vector<std::string>& pieces)
      : Tokenizer(punctuation_marks(pieces)), processor_(std::move(processor)) {}

  std::string kind() const override { return "sentencepiece"; }
  int64_t size() const override { return processor_->GetPieceSize(); }
  std::string piece(int32_t id) const override { return processor_->IdToPiece(id); }
  int32_t unknown() const override { return processor_->unk_id(); }
  std::vector<int32_t> encode(std::string_view text) const override {
    const std::vector<int> ids = processor_->EncodeAsIds(std::string(text));
    return {ids.begin(), ids.end()};
  }

 protected:
  std::string join(std::span<const int32_t> ids) const override {
    return processor_->DecodeIds(std::vector<int>(ids.begin(), ids.end()));
  }

 private:
  std::unique_ptr<const Processor> processor_;
};

UserError unusable(std::string_view where, const std::string& reason) {
  return UserError(where, "not a SentencePiece model (" + reason + ")",
                   "give a SentencePiece .model as NeMo packs it");
}

}  // namespace

std::shared_ptr<const Tokenizer> sentencepiece_tokenizer(const std::string& model,
                                                         std::string_view where) {
  auto processor = std::make_unique<Processor>();
  try {
    const auto status = processor->LoadFromSerializedProto(decoding_part(model, where));
    if (!status.ok()) throw unusable(where, status.ToString());
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& e) {  // of Darts, which SentencePiece builds its index with
    throw unusable(where, e.what());
  }
  const std::vector<std::string> pieces = pieces_of(*processor);
  check_pieces(pieces, where);
  check_pieces({processor->DecodeIds(std::vector<int>{processor->unk_id()})}, where);
  return std::make_shared<const SentencePieces>(std::move(processor), pieces);
}

}  // namespace rtfx
