// `rtfx graph`, `rtfx lattice` and `rtfx emissions`: decoding graphs, and searches written out for
// other programs.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "harness/config/config.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

// `rtfx graph`: decoding graphs for CTC models, built from a tokenizer, a lexicon and a language
// model, or imported from OpenFst.

struct GraphOptions {
  std::filesystem::path tokenizer;       // see load_tokenizer
  std::filesystem::path lexicon, lm;     // build
  std::filesystem::path openfst, words;  // import
  std::filesystem::path output;
  std::string blank;  // import: "first", "last", or empty where the graph must show "last"
  std::string topology = "compact";
  bool drop_unspelled = false;
};

/// Reads the tokenizer of a checkpoint (.nemo, folder, or the name of a downloaded model), a
/// SentencePiece .model, a WordPiece vocab.txt (any .txt) or a tokenizer.json (any .json) of
/// Hugging Face. Throws UserError where it cannot.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& given);

/// Prints a line for each stage as it is done: states, arcs, seconds, memory; then the file's
/// size. Returns an exit code. Throws UserError.
int build_graph_file(const GraphOptions& options);

/// Prints the file's size. Returns an exit code. Throws UserError.
int import_graph_file(const GraphOptions& options);

// `rtfx lattice`: the paths near the best one, for other programs, and what follows from them.

struct LatticeOptions {
  double graph_scale = 1;
  std::optional<double> acoustic_scale;  // none: the search's
  bool mbr = false;                      // print words of the minimum Bayes risk
  bool posteriors = false;               // write words by frame
};

/// Decodes the first dataset of the configuration with its first model, dtype and batch. It takes
/// the first decoder that searches a decoding graph: `ctc_wfst_cpu`, or `ctc_wfst`, whose paths
/// `ctc_wfst_cpu` finds in its place. It writes to the folder `config.output`:
///
/// - lattices.txt: an archive of Kaldi's compact lattices (word_lattice.h), in the dataset's order.
/// - words.txt: the table of symbols.
/// - fst/NUMBER.txt: each lattice for OpenFst, with scaled costs.
/// - utterances.jsonl: one line for each utterance, with its id, key (the id with "_" for white
///   space), fst, frames, states and arcs, and with the cost and words of the best path.
///   `posteriors` adds the words of frames as [word, p].
///
/// With `mbr`, prints NIST's CTM lines: key, channel, begin and length in seconds, word,
/// confidence. Returns kFailed where an utterance has no path (it is left out, with a line on
/// standard error), else kOk. Throws UserError.
int write_lattices(const Config& config, const LatticeOptions& options);

// `rtfx emissions`: the log-probabilities that CTC searches work on, for other programs to read.

/// Encodes the first dataset of the configuration with its first model, dtype and batch, as `rtfx
/// run` does, and writes to `folder`, which is made if need be:
///   emissions.npy     [sum of frames, V+1] float32: ln p, blank in the last column, utterance
///                     after utterance in the order of the dataset
///   utterances.jsonl  a line for each: id, frames, seconds, text (null without a reference)
/// Returns an ExitCode. Throws UserError, for a model without a CTC head too.
int write_emissions(const Config& config, const std::filesystem::path& folder);

}  // namespace rtfx
