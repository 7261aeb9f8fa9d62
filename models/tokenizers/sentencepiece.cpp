#include "models/tokenizers/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "models/tokenizers/pieces.h"

namespace rtfx {

namespace {

// Field numbers of sentencepiece_model.proto.
enum ModelField : uint64_t { kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5 };
constexpr uint64_t kName = 1, kCharsmap = 2;  // fields of a NormalizerSpec

/// Reads the fields of a serialised protobuf message, one after the other.
class Fields {
 public:
  Fields(std::string_view message, std::string_view where) : rest_(message), where_(where) {}

  uint64_t number = 0;
  std::string_view whole;    // the field with its key
  std::string_view content;  // content of a field with a length: strings and messages

  /// Moves to the next field. Returns false after the last one.
  bool next() {
    if (rest_.empty()) return false;
    const std::string_view begin = rest_;
    const uint64_t key = varint();
    number = key >> 3;
    content = {};
    switch (key & 7) {
      case 0:
        varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        content = take(varint());
        break;
      case 5:
        take(4);
        break;
      default:
        damaged();  // a group, which no SentencePiece model has
    }
    whole = begin.substr(0, begin.size() - rest_.size());
    return true;
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    damaged();
  }

  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size()) damaged();
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  [[noreturn]] void damaged() const {
    throw UserError(where_, "not a SentencePiece model (no protobuf message)",
                    "give a SentencePiece .model as NeMo packs it");
  }

  std::string_view rest_, where_;
};

std::string without_charsmap(std::string_view normalizer, std::string_view where) {
  std::string kept;
  for (Fields field(normalizer, where); field.next();) {
    if (field.number != kCharsmap) kept += field.whole;
  }
  return kept;
}

void append_message(std::string& to, uint64_t number, std::string_view content) {
  const auto varint = [&to](uint64_t value) {
    for (; value >= 0x80; value >>= 7) to += static_cast<char>((value & 0x7F) | 0x80);
    to += static_cast<char>(value);
  };
  varint(number << 3 | 2);
  varint(content.size());
  to += content;
}

/// Returns the serialised ModelProto `model` with its pieces, its trainer's settings and its
/// normalizer's flags. It leaves out the tables that normalise text before it is split into pieces,
/// and the samples that test them. SentencePiece does not check these tables. With a damaged one,
/// it crashed on the samples while it loaded. Throws UserError where `model` is not such a message,
/// has too many pieces, or has a table of its own for joined text (a denormalizer).
std::string decoding_part(std::string_view model, std::string_view where) {
  check_size(model, where);
  std::string kept;
  size_t pieces = 0;
  for (Fields field(model, where); field.next();) {
    if (field.number == kPieces) check_count(++pieces, where);
    if (field.number == kPieces || field.number == kTrainer) kept += field.whole;
    if (field.number == kNormalizer)
      append_message(kept, kNormalizer, without_charsmap(field.content, where));
    if (field.number != kDenormalizer) continue;
    for (Fields rule(field.content, where); rule.next();) {
      if (rule.number != kCharsmap || rule.content.empty()) continue;
      throw UserError(where, "the model has rules that rewrite its text (a denormalizer)",
                      "only models without such rules are supported");
    }
  }
  return kept;
}

/// Returns the normalisation with which the model was trained, if it is one of SentencePiece's own.
TextForm form_of(std::string_view model, std::string_view where) {
  std::string_view name;
  for (Fields field(model, where); field.next();) {
    if (field.number != kNormalizer) continue;
    for (Fields rule(field.content, where); rule.next();)
      if (rule.number == kName) name = rule.content;
  }
  if (name == "nfkc") return TextForm::nfkc;
  if (name == "nmt_nfkc") return TextForm::nmt_nfkc;
  if (name == "nfkc_cf") return TextForm::nfkc_cf;
  if (name == "nmt_nfkc_cf") return TextForm::nmt_nfkc_cf;
  return TextForm::as_is;
}

using Processor = sentencepiece::SentencePieceProcessor;

std::vector<std::string> pieces_of(const Processor& processor) {
  std::vector<std::string> pieces;
  for (int id = 0; id < processor.GetPieceSize(); ++id) pieces.push_back(processor.IdToPiece(id));
  return pieces;
}

class SentencePieces : public Tokenizer {
 public:
  SentencePieces(std::unique_ptr<const Processor> processor, const std::vector<std::string>& pieces,
                 TextForm form)
      : Tokenizer(punctuation_marks(pieces)), processor_(std::move(processor)), form_(form) {}

  std::string kind() const override { return "sentencepiece"; }
  int64_t size() const override { return processor_->GetPieceSize(); }
  std::string piece(int32_t id) const override { return processor_->IdToPiece(id); }
  int32_t unknown() const override { return processor_->unk_id(); }
  std::string normalized(std::string_view text) const override { return text_in_form(text, form_); }
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
  TextForm form_;
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
  } catch (const std::exception& e) {  // thrown by Darts, with which SentencePiece builds its index
    throw unusable(where, e.what());
  }
  const std::vector<std::string> pieces = pieces_of(*processor);
  check_pieces(pieces, where);
  check_pieces({processor->DecodeIds(std::vector<int>{processor->unk_id()})}, where);
  return std::make_shared<const SentencePieces>(std::move(processor), pieces,
                                                form_of(model, where));
}

}  // namespace rtfx
