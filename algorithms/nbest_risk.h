// Minimum Bayes risk over n-best lists. Among the texts that a search returns, it chooses the one
// with the fewest expected errors (Stolcke, König, Weintraub, "Explicit word error minimization in
// N-best list rescoring", Eurospeech 1997):
//
//   risk(i) = sum over j of p(j) d(i, j)
//   p(j) = exp(scale * score_j) / (sum over k of exp(scale * score_k))
//
// d is the edit distance of two texts in words or tokens. `rtfx lattice --mbr` minimises the risk
// over all paths of a lattice (shared/wfst/word_lattice.h).
//
// A decoder of rtfx itself offers it by the option "mbr" (mbr_option()). It must then have the
// option "nbest", too. The registry wraps such a decoder. Plug-ins and decoders in Python are not
// wrapped. Results keep the list in the search's order until they come to the host, where
// Hypotheses::to_host() sorts it. So decode() does not wait for the device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/hypotheses.h"
#include "base/options.h"

namespace rtfx {

class Decoder;

struct MbrOptions {
  double scale = 1;            // factor of the scores
  std::string unit = "words";  // the edit distance counts "words" or "tokens"

  static const OptionTable<MbrOptions>& table();
};

/// Returns the row "mbr" of a decoder's option table.
template <class Options>
OptionField<Options> mbr_option(std::optional<MbrOptions> Options::*member) {
  return option("mbr", member,
                "Sort the n-best list by expected errors (minimum Bayes risk), the fewest first. "
                "Needs `nbest` above 1. null: by score.",
                MbrOptions::table());
}

/// Returns the least number of symbols that must be substituted, inserted and deleted to turn `a`
/// into `b`.
int64_t edit_distance(std::span<const int32_t> a, std::span<const int32_t> b);

/// Returns the risk of each text. texts[i] holds numbers of words, and log_weights[i] is the scaled
/// score of text i, finite. Both have the same length.
std::vector<double> expected_errors(const std::vector<std::vector<int32_t>>& texts,
                                    const std::vector<double>& log_weights);

/// The order of n-best lists by risk.
class MinimumBayesRisk {
 public:
  /// `tokenizer` spells the tokens; it may be null if the unit is tokens.
  MinimumBayesRisk(MbrOptions options, std::shared_ptr<const Tokenizer> tokenizer);

  /// Sorts the n-best list, lowest risk first, and makes its first entry the hypothesis. Entries of
  /// equal risk keep their order. Scores do not change. A list of fewer than two entries and the
  /// list of a row with NaN stay unchanged.
  ///
  /// The words are those that the search found in a word table. Without a word table, they are the
  /// parts between white space in the text of the tokens. They are compared as they are, capitals
  /// and punctuation included.
  void sort(Hypothesis& hypothesis) const;

 private:
  std::vector<std::string> words_of(const Hypothesis& entry) const;
  std::vector<std::vector<int32_t>> texts_of(const std::vector<Hypothesis>& entries) const;

  MbrOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

/// Returns the decoder itself if its option "mbr" is null. Otherwise returns a decoder whose final
/// results are chosen by risk, including those of its streams. Partial results of streams keep the
/// ranking of the search. Throws UserError if the option "nbest" is below 2; `where` names the
/// decoder's options in the message.
std::unique_ptr<Decoder> with_minimum_bayes_risk(std::unique_ptr<Decoder> decoder,
                                                 std::string_view where);

}  // namespace rtfx
