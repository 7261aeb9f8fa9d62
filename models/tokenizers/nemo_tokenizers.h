// NeMo's vocabularies of characters and of WordPiece, and its tokenizers of several languages.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Makes a vocabulary of characters: the `labels` or `vocabulary` of a NeMo model without a
/// tokenizer. Text is the labels joined without separator, and a space is a label like others.
/// unknown() is -1. Throws UserError where there are no labels, and for a label that is not UTF-8.
std::shared_ptr<const Tokenizer> character_tokenizer(std::vector<std::string> labels);

/// Makes a WordPiece vocabulary: the vocab.txt of BERT's tokenizer (NeMo's `type: wpe`).
/// `vocab_txt` has one piece per line. As in transformers, [UNK], [SEP], [PAD], [CLS] and [MASK]
/// follow in this order where the file lacks them.
///
/// Text is the pieces with spaces between them, except before `##`. `[UNK]` and similar pieces stay
/// as they are. This is the text of NeMo 2.7.3 with transformers 4.57. (transformers 5.23 sets no
/// space before a word `n't` either. BERT's words end at an apostrophe, so that no vocabulary holds
/// it.)
///
/// Throws UserError, with `where` for the file, where it is empty or not UTF-8, and where it has a
/// piece twice.
std::shared_ptr<const Tokenizer> wordpiece_tokenizer(const std::string& vocab_txt,
                                                     std::string_view where);

/// Joins the tokenizers of several languages (NeMo's `type: agg`). The ids of each language follow
/// those of the one before it.
///
/// Text is all pieces joined without separator, with U+2581 as a space, whatever the languages' own
/// rules are. It usually begins with a space. `##`, `<unk>`, `<|...|>` and byte pieces `<0x..>`
/// stay in the text, as in NeMo's transducers. (NeMo 2.7.3 and 3.0.0 fail on the text of a CTC head
/// with such a tokenizer.)
///
/// unknown() is that of the first language that has one. Throws UserError where there is no
/// language.
std::shared_ptr<const Tokenizer> aggregate_tokenizer(
    const std::vector<std::pair<std::string, std::shared_ptr<const Tokenizer>>>& languages);

/// Returns `tokenizer` with text that has no language tags such as `<en-US>`. White space before
/// the tags and at the ends of the text is left out too. This is NeMo's `decoding.strip_lang_tags`
/// with its default pattern. NeMo does it for transducers only, rtfx for all heads.
std::shared_ptr<const Tokenizer> without_language_tags(std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace rtfx
