// Makes files that a configuration needs from other files. The configuration lists them in its key
// "prepare":
//   {"graph": FILE, "lexicon": FILE, "lm": FILE, "topology": "compact"}
//     makes a decoding graph for the tokenizer of the first model
//   {"words": FILE, "dataset": ID, "lexicon": FILE, "said": true}
//     makes a file with lines "word 1" for the option "boost". It has the words of the lexicon that
//     occur in the set's references. With "said" false it has as many that do not occur.
// Paths are relative to the configuration. Existing files are not changed.
#pragma once

#include "harness/config/document.h"

namespace rtfx {

/// Makes the files that the configuration lists, and says so on stderr. Throws UserError. The error
/// for a missing input names the file that is made from it.
void prepare_files(const Document& document);

}  // namespace rtfx
