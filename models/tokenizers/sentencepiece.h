// SentencePiece vocabularies: the tokenizer.model of a NeMo checkpoint (`type: bpe`).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// `model`: bytes of a SentencePiece .model; of any kind (BPE, unigram, with byte pieces).
/// Text is SentencePiece's: control pieces are silent, the unknown one is U+2047 between spaces.
/// Prompt-like pieces `<|...|>` stand in it where they are user-defined symbols, as in NeMo. Throws
/// UserError, with `where` for the file, for what is no such model, and for one with rules of its
/// own for the text (a denormalizer).
std::shared_ptr<const Tokenizer> sentencepiece_tokenizer(const std::string& model,
                                                         std::string_view where);

}  // namespace rtfx
