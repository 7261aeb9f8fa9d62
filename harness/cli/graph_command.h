// `rtfx graph`: decoding graphs for CTC models, built from a tokenizer, a lexicon and a language
// model, or imported from OpenFst.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

struct GraphOptions {
  std::filesystem::path tokenizer;       // see load_tokenizer
  std::filesystem::path lexicon, lm;     // build
  std::filesystem::path openfst, words;  // import
  std::filesystem::path output;
  std::string topology = "compact";
  bool drop_unspelled = false;
};

/// Reads the tokenizer of a checkpoint (.nemo or folder), a SentencePiece .model, a WordPiece
/// vocab.txt (any .txt) or a tokenizer.json (any .json) of Hugging Face. Throws UserError where it
/// cannot.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);

/// Prints a line for each stage as it is done: states, arcs, seconds, memory; then the file's
/// size. Returns an exit code. Throws UserError.
int build_graph_file(const GraphOptions& options);

/// Prints the file's size. Returns an exit code. Throws UserError.
int import_graph_file(const GraphOptions& options);

}  // namespace rtfx
