// Tokenizers of Hugging Face: the tokenizer.json of a Parakeet folder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Makes a tokenizer of `json`, the bytes of the file. Its model may be Unigram, BPE, WordPiece or
/// WordLevel.
///
/// Text is the text of transformers with skip_special_tokens. Added tokens that are special are
/// left out. The file's decoder joins the others, and no space is removed before punctuation.
///
/// `vocabulary` is the number of the model's tokens without its blank. Pieces from there on (blank,
/// padding) are cut. With a negative number, all pieces stay except the special tokens `<blank>`
/// and `<pad>` that the conversion from NeMo appends.
///
/// Throws UserError, with `where` for the file, if it is no such file or has an unknown model or
/// decoder. Also throws for a vocabulary with holes or with fewer than `vocabulary` pieces.
std::shared_ptr<const Tokenizer> tokenizer_json(const std::string& json, int64_t vocabulary,
                                                std::string_view where);

}  // namespace rtfx
