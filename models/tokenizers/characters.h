// Vocabularies of characters: the `labels` or `vocabulary` of a NeMo model without a tokenizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Text is the labels side by side; a space is a label like others. unknown() is -1. Throws
/// UserError for no labels, and for one that is not UTF-8.
std::shared_ptr<const Tokenizer> character_tokenizer(std::vector<std::string> labels);

}  // namespace rtfx
