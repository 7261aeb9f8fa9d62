// Tokenizers of several languages side by side (NeMo's `type: agg`).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// The ids of each language follow those of the one before it. Text is all pieces side by side with
/// U+2581 as a space, whatever the languages' own rules are. A space usually begins it. `##`,
/// `<unk>`,
/// `<|...|>` and byte pieces `<0x..>` stay, which NeMo's transducers do too. (NeMo 2.7.3 and 3.0.0
/// fail on the text of a CTC head with such a tokenizer.) unknown() is that of the first language
/// that has one. Throws UserError where there is no language.
std::shared_ptr<const Tokenizer> aggregate_tokenizer(
    const std::vector<std::pair<std::string, std::shared_ptr<const Tokenizer>>>& languages);

}  // namespace rtfx
