// Word boosting: words that are made more likely, in one utterance or in all. An arc with a boosted
// word costs less by the word's boost. That equals a composition with a one-state acceptor of the
// words, but it is done while arcs are followed, and the graph stays as it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
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

// Options of the decoders that search a decoding graph, and the graph that they name.

struct AcousticModel;

struct WfstOptions {
  std::filesystem::path graph;  // of `rtfx graph build`
  double acoustic_scale = 1 / 0.55;
  double beam = 17;  // in scaled units
  int64_t max_active = 10000;
  int64_t nbest = 1;        // word sequences to return; for more than 1 a lattice is kept
  double lattice_beam = 8;  // how much more than the best path each of them may cost
  std::optional<BoostOptions> boost;
  // On a GPU.
  std::string loop = "persistent";
  bool double_buffer = true;
  // On the CPU.
  int64_t threads = 0;
};
const OptionTable<WfstOptions>& gpu_wfst_options();
const OptionTable<WfstOptions>& cpu_wfst_options();

/// Maps options.graph. Throws UserError where it was built for another tokenizer than the model's.
WfstGraph load_graph(const WfstOptions& options, const AcousticModel& model);

/// What the option "boost" asks for; both empty without it.
struct WordBoosting {
  std::vector<float> costs;        // word_costs() with the scale
  std::vector<std::string> words;  // of the file whose number is above 0, whatever the scale
};

/// Words that the graph does not have are counted in a notice on standard error. Throws UserError.
WordBoosting load_boosting(const WfstOptions& options, const WfstGraph& graph);

}  // namespace rtfx
