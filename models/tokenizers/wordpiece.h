// WordPiece vocabularies: the vocab.txt of BERT's tokenizer (NeMo's `type: wpe`).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// `vocab_txt`: one piece a line. As in transformers, [UNK], [SEP], [PAD], [CLS] and [MASK] follow
/// in this order where the file lacks them. Text is the pieces with spaces between them but before
/// `##`, and `[UNK]` and its like as they are: NeMo 2.7.3's, with transformers 4.57. (transformers
/// 5.23 sets no space before a word `n't` either; BERT's words end at an apostrophe, so that no
/// vocabulary holds it.) Throws UserError, with `where` for the file, where it is empty or not
/// UTF-8, and where a piece stands in it twice.
std::shared_ptr<const Tokenizer> wordpiece_tokenizer(const std::string& vocab_txt,
                                                     std::string_view where);

}  // namespace rtfx
