// Files that a configuration needs and that can be made from others: its key "prepare", a list of
//   {"graph": FILE, "lexicon": FILE, "lm": FILE, "topology": "compact"}
//     a decoding graph for the tokenizer of the first model
//   {"words": FILE, "dataset": ID, "lexicon": FILE, "said": true}
//     lines "word 1" for the option "boost": the words of the lexicon that the set's references
//     hold, or with "said" false as many that they do not
// Paths are relative to the configuration. A file that is there already is left as it is.
#pragma once

#include "harness/config/document.h"

namespace rtfx {

/// Makes the files that the configuration lists, and says so on stderr. Throws UserError; for a
/// file that is missing, the error tells what is made from it.
void prepare_files(const Document& document);

}  // namespace rtfx
