// NeMo's vocabularies of characters and of WordPiece, and its tokenizers of several languages.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// A vocabulary of characters: the `labels` or `vocabulary` of a NeMo model without a tokenizer.
/// Text is the labels side by side; a space is a label like others. unknown() is -1. Throws
/// UserError for no labels, and for one that is not UTF-8.
std::shared_ptr<const Tokenizer> character_tokenizer(std::vector<std::string> labels);

/// A WordPiece vocabulary: the vocab.txt of BERT's tokenizer (NeMo's `type: wpe`).
/// `vocab_txt`: one piece a line. As in transformers, [UNK], [SEP], [PAD], [CLS] and [MASK] follow
/// in this order where the file lacks them. Text is the pieces with spaces between them but before
/// `##`, and `[UNK]` and its like as they are: NeMo 2.7.3's, with transformers 4.57. (transformers
/// 5.23 sets no space before a word `n't` either; BERT's words end at an apostrophe, so that no
/// vocabulary holds it.) Throws UserError, with `where` for the file, where it is empty or not
/// UTF-8, and where a piece stands in it twice.
std::shared_ptr<const Tokenizer> wordpiece_tokenizer(const std::string& vocab_txt,
                                                     std::string_view where);

/// Tokenizers of several languages side by side (NeMo's `type: agg`).
/// The ids of each language follow those of the one before it. Text is all pieces side by side with
/// U+2581 as a space, whatever the languages' own rules are. A space usually begins it. `##`,
/// `<unk>`,
/// `<|...|>` and byte pieces `<0x..>` stay, which NeMo's transducers do too. (NeMo 2.7.3 and 3.0.0
/// fail on the text of a CTC head with such a tokenizer.) unknown() is that of the first language
/// that has one. Throws UserError where there is no language.
std::shared_ptr<const Tokenizer> aggregate_tokenizer(
    const std::vector<std::pair<std::string, std::shared_ptr<const Tokenizer>>>& languages);

/// `tokenizer`, whose text is without tags of languages such as `<en-US>`, the white space before
/// them, and white space at its ends: NeMo's `decoding.strip_lang_tags` with its default pattern.
/// NeMo does so for transducers only, and this for all heads.
std::shared_ptr<const Tokenizer> without_language_tags(std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace rtfx
