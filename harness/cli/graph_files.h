// `rtfx graph`: makes decoding graphs for CTC models. It builds them from a tokenizer, a lexicon
// and a language model, or imports them from OpenFst.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

struct GraphOptions {
  std::filesystem::path tokenizer;       // as load_tokenizer() takes it
  std::filesystem::path lexicon, lm;     // for `build`
  std::filesystem::path openfst, words;  // for `import`
  std::filesystem::path output;
  /// Place of blank in an imported graph: "first", "last", or empty. If it is empty, the graph must
  /// show that blank is "last".
  std::string blank;
  std::string topology = "compact";
  bool drop_unspelled = false;
};

/// Reads a tokenizer. `given` is a checkpoint (.nemo, folder, or the name of a downloaded model), a
/// SentencePiece .model, a WordPiece vocab.txt (any .txt), or a tokenizer.json of Hugging Face (any
/// .json). Throws UserError if it cannot be read.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& given);

/// Builds a graph. Prints a line after each stage with states, arcs, seconds and memory, and then
/// the file's size. Returns an exit code. Throws UserError.
int build_graph_file(const GraphOptions& options);

/// Imports a graph, and prints the file's size. Returns an exit code. Throws UserError.
int import_graph_file(const GraphOptions& options);

}  // namespace rtfx
