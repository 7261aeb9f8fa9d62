// SentencePiece vocabularies: the tokenizer.model of a NeMo checkpoint (`type: bpe`).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Makes a tokenizer of `model`, the bytes of a SentencePiece .model of any kind (BPE, unigram,
/// with byte pieces).
///
/// Text is that of SentencePiece. Control pieces give no text, and the unknown one gives U+2047
/// between spaces. Prompt-like pieces `<|...|>` stand in the text where they are user-defined
/// symbols, as in NeMo.
///
/// Throws UserError, with `where` for the file, if it is no such model. Also throws for a model
/// with rules of its own for the text (a denormalizer).
std::shared_ptr<const Tokenizer> sentencepiece_tokenizer(const std::string& model,
                                                         std::string_view where);

}  // namespace rtfx
