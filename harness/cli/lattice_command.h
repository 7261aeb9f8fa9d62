// `rtfx lattice`: the paths near the best one, for other programs, and what follows from them.
#pragma once

#include <optional>

#include "harness/config/config.h"

namespace rtfx {

struct LatticeOptions {
  double graph_scale = 1;
  std::optional<double> acoustic_scale;  // none: the search's
  bool mbr = false;                      // print words of the minimum Bayes risk
  bool posteriors = false;               // write words by frame
};

/// Decodes the first dataset of the configuration with its first model, dtype and batch by the
/// first decoder that searches a decoding graph (`ctc_wfst`, whose paths are those of
/// `ctc_wfst_cpu`, by the latter), and writes to the folder `config.output`:
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

}  // namespace rtfx
