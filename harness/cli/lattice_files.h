// `rtfx lattice`: writes the paths near the best one for other programs, and results that follow
// from these paths.
#pragma once

#include <optional>

#include "harness/config/config.h"

namespace rtfx {

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
/// - lattices.jsonl: one line for each utterance. It has the id, the key (recording_field() of the
/// id), fst, frames, states and arcs, and the cost and words of the best path. With `posteriors`,
/// it also has the words of each frame as [word, p].
///
/// With `mbr`, it prints NIST's CTM lines: key, channel, begin and length in seconds, word,
/// confidence. An utterance without a path is left out, with a line on stderr. Returns kFailed if
/// there is such an utterance, else kOk. Throws UserError.
int write_lattices(const Config& config, const LatticeOptions& options);

}  // namespace rtfx
