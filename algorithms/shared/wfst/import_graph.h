// Imports decoding graphs that other tools made.
#pragma once

#include <filesystem>
#include <optional>

#include "algorithms/shared/wfst/graph.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// Which input label of an imported graph is blank.
///
///   last   V + 1, and tokens are token id + 1, as `rtfx graph build` has them
///   first  1, and tokens are token id + 2, as EESEN has them
///   none   the graph has tokens alone, token id + 1, and gets the topology `tokens`
///
/// With a blank, the labels of k2's arcs are columns of the network's output, so a blank that is
/// `first` has label 0. Each label is then counted up by one. Without a blank, k2's label 0 is
/// epsilon, and labels stay as they are.
enum class BlankLabel { last, first, none };

/// Imports a TLG, or an LG without blanks, that another tool made (read_openfst() in graph.h). Its
/// word table has lines "word id". If `blank` is not given, the start of the graph must show that
/// blank is `last`: a CTC graph stays there as long as blanks come. Throws UserError, also for an
/// input label beyond the tokens and blank, for the label of blank in spite of `none`, and for a
/// label without a word. It also throws for a word with a space, and for an <eps> with another id
/// than 0. It throws for arcs that write a symbol of the word table (#0, #1, ...), too.
WfstGraph import_graph(const Tokenizer& tokenizer, const std::filesystem::path& openfst,
                       const std::filesystem::path& word_table,
                       std::optional<BlankLabel> blank = std::nullopt);

}  // namespace rtfx
