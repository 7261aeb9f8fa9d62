// The weights of a run that were tuned. compare, exports, reports and the pages of tables show
// them.
#pragma once

#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// A search of the configuration's key "tune" (docs/reference/searches.md), and the values that the
/// measured decoder had.
struct TunedSearch {
  /// Ids of the decoders that share the values, the tuned one first.
  std::vector<std::string> decoders;
  std::vector<std::string> models;  // ids of the models that the search is for; empty: all
  bool chosen = false;              // `rtfx tune` chose these values, as `tune.chosen` says
  std::string sentence;

  bool is_for(const CaseResult& result) const;
};

/// Returns the searches for which the results have a case, each once, in the order of the
/// configuration. Their sentences are:
///   "rtfx tune chose the weights of 2 forms of beam on dev (120 utterances): lm.alpha 0.25."
///   "beam had the weights lm.alpha 0.25."
/// The second sentence is for a journal that does not say how its values were chosen, and for
/// values that are not those of `tune.chosen`.
std::vector<TunedSearch> tuned_searches(const ResultSet& results);

/// Returns the sentences of these searches.
std::vector<std::string> tuned_sentences(const ResultSet& results);

}  // namespace rtfx
