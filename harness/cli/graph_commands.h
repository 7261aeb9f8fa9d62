// `rtfx graph`, `rtfx lattice` and `rtfx emissions`: make decoding graphs, and write searches for
// other programs.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "harness/config/config.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

// `rtfx graph`: makes decoding graphs for CTC models. It builds them from a tokenizer, a lexicon
// and a language model, or imports them from OpenFst.

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

// `rtfx lattice`: writes the paths near the best one for other programs, and results that follow
// from these paths.

struct LatticeOptions {
  double graph_scale = 1;
  std::optional<double> acoustic_scale;  // none: the scale of the search
  bool mbr = false;                      // prints words of minimum Bayes risk
  bool posteriors = false;               // writes the probabilities of words by frame
};

/// Decodes the first dataset of the configuration with its first model, dtype and batch. It takes
/// the first decoder that searches a decoding graph: `ctc_wfst_cpu`, or `ctc_wfst`, in whose place
/// it then runs `ctc_wfst_cpu`. It writes these files to the folder `config.output`:
///
/// - lattices.txt: an archive of Kaldi's compact lattices (word_lattice.h), in the dataset's order.
/// - words.txt: the table of symbols.
/// - fst/NUMBER.txt: each lattice for OpenFst, with scaled costs.
/// - lattices.jsonl: one line for each utterance. It has the id, the key (the id with "_" for
/// white space), fst, frames, states and arcs, and the cost and words of the best path. With
/// `posteriors`, it also has the words of each frame as [word, p].
///
/// With `mbr`, it prints NIST's CTM lines: key, channel, begin and length in seconds, word,
/// confidence. An utterance without a path is left out, with a line on stderr. Returns kFailed if
/// there is such an utterance, else kOk. Throws UserError.
int write_lattices(const Config& config, const LatticeOptions& options);

// `rtfx emissions`: writes the log-probabilities that CTC searches take, for other programs.

/// Encodes the first dataset of the configuration with its first model, dtype and batch, as `rtfx
/// run` does. Makes `folder` if necessary, and writes to it:
///   emissions.npy     [sum of frames, V+1] float32: ln p, blank in the last column, utterance
///                     after utterance in the order of the dataset
///   utterances.jsonl  a line for each: id, frames, seconds, text (null without a reference)
/// Returns an ExitCode. Throws UserError, also for a model without a CTC head.
int write_emissions(const Config& config, const std::filesystem::path& folder);

}  // namespace rtfx
