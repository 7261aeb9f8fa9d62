// Word boosting: words that are made more likely, in one utterance or in all. An arc with a boosted
// word costs less by the word's boost. That equals a composition with a one-state acceptor of the
// words, but it is done while arcs are followed, and the graph stays as it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/graph.h"
#include "base/options.h"

namespace rtfx {

/// How much less a word costs, in the units of the beam; negative: more. A boost above what the
/// language model asks for a word after itself makes the search repeat words of one token
/// (docs/searches.md, "How strong a boost").
using WordBoosts = std::map<std::string, float, std::less<>>;

/// The value of a decoder's option "boost", an object.
struct BoostOptions {
  std::filesystem::path path;
  double scale = 1;  // of the file's numbers
};
const OptionTable<BoostOptions>& boost_options();

/// Lines "word boost", plain or gzip. Throws UserError with file and line.
WordBoosts read_word_boosts(const std::filesystem::path& path);

/// What searches add to the cost of an arc with a word: [W + 1]. Words that the graph does not have
/// change nothing; they are counted in *unknown unless it is null.
std::vector<float> word_costs(const WfstGraph& graph, const WordBoosts& boosts,
                              int64_t* unknown = nullptr);

}  // namespace rtfx
