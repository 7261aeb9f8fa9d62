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
/// left out, and the file's decoder joins the others. `config` holds the bytes of the
/// tokenizer_config.json beside it, which may be empty. It names further special tokens. With
/// clean_up_tokenization_spaces, spaces before punctuation are removed, though not for BPE.
///
/// `vocabulary` is the number of the model's tokens without its blank. Pieces from there on (blank,
/// padding) are cut. With a negative number, all pieces stay except the special tokens `<blank>`
/// and `<pad>` that the conversion from NeMo appends.
///
/// Throws UserError, with `where` for the file, if it is no such file or has an unknown model or
/// decoder. Also throws for a vocabulary with holes or with fewer than `vocabulary` pieces. An
/// error in `config` names tokenizer_config.json.
std::shared_ptr<const Tokenizer> tokenizer_json(const std::string& json, int64_t vocabulary,
                                                std::string_view where,
                                                const std::string& config = "");

}  // namespace rtfx
