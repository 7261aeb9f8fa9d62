// Files that a configuration needs and that can be made from others: its key "prepare", a list of
//   {"graph": FILE, "lexicon": FILE, "lm": FILE, "topology": "compact"}
//     a decoding graph for the tokenizer of the first model (or of its fallback)
//   {"words": FILE, "dataset": ID, "lexicon": FILE, "said": true}
//     lines "word 1" for the option "boost": the words of the lexicon that the set's references
//     hold, or with "said" false as many that they do not
// Paths are relative to the configuration. A file that is there already is left as it is.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace rtfx {

/// `document`: of the configuration `file`. Says on stderr what it makes. Throws UserError, for a
/// file that is missing with what it is needed for.
void prepare_files(const nlohmann::json& document, const std::filesystem::path& file);

}  // namespace rtfx
