// Tokenizers of Hugging Face: the tokenizer.json of a Parakeet folder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// `json`: bytes of the file; models Unigram, BPE, WordPiece and WordLevel. Text is what
/// transformers gives with skip_special_tokens: added tokens that are special are left out, the
/// others joined by the file's decoder, and no space is removed before punctuation.
/// `vocabulary`: number of the model's tokens without its blank; pieces from there on (blank,
/// padding) are cut. Negative: all but the special tokens `<blank>` and `<pad>` that the
/// conversion from NeMo appends. Throws UserError, with `where` for the file, for what is no such
/// file, and for a model or decoder that it does not know. It also throws for a vocabulary with
/// holes or with fewer than `vocabulary` pieces.
std::shared_ptr<const Tokenizer> tokenizer_json(const std::string& json, int64_t vocabulary,
                                                std::string_view where);

}  // namespace rtfx
