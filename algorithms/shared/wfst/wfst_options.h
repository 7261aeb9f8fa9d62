// Options of the decoders that search a decoding graph, the graph that they name, and word
// boosting: words become more likely in one utterance or in all. An arc with a boosted word costs
// less by the word's boost. This equals a composition with a one-state acceptor of the words, but
// the search does it while it follows arcs, and the graph stays unchanged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/nbest_risk.h"
#include "algorithms/shared/wfst/graph.h"
#include "base/options.h"

namespace rtfx {

/// A boost lowers the cost of a word, in the units of the beam. A negative boost raises it.
/// If the boost of a word exceeds the cost of the word after itself, the search repeats words of
/// one token (docs/reference/searches.md, "How strong a boost").
using WordBoosts = std::map<std::string, float, std::less<>>;

/// The value of a decoder's option "boost".
struct BoostOptions {
  std::filesystem::path path;
  double scale = 1;  // factor of the file's numbers
};
const OptionTable<BoostOptions>& boost_options();

/// Reads lines "word boost", plain or gzip. Throws UserError with file and line.
WordBoosts read_word_boosts(const std::filesystem::path& path);

/// Returns [W + 1] numbers that searches add to the cost of an arc with a word. Words that the
/// graph lacks change nothing; they are counted in *unknown unless it is null.
std::vector<float> word_costs(const WfstGraph& graph, const WordBoosts& boosts,
                              int64_t* unknown = nullptr);

struct AcousticModel;

struct WfstOptions {
  std::filesystem::path graph;  // a file of `rtfx graph build`
  double acoustic_scale = 1 / 0.55;
  double beam = 17;  // in scaled units
  int64_t max_active = 10000;
  int64_t nbest = 1;  // word sequences to return; the search keeps a lattice for more than 1
  std::optional<MbrOptions> mbr;
  double lattice_beam = 8;  // how much more than the best path each of them may cost
  std::optional<BoostOptions> boost;
  double blank_penalty = 0;          // of the logits, see blank_penalty.h
  std::optional<double> skip_blank;  // threshold, see blank_skipping.h
  // Searches on a GPU:
  std::string loop = "persistent";
  bool double_buffer = true;
  // Searches on the CPU:
  int64_t threads = 0;
};
const OptionTable<WfstOptions>& gpu_wfst_options();
const OptionTable<WfstOptions>& cpu_wfst_options();

/// Maps a graph. Throws UserError if it was built for another tokenizer than the model's.
WfstGraph load_graph(const std::filesystem::path& path, const AcousticModel& model);

/// Maps options.graph. Throws UserError, also if the graph has no topology of CTC.
WfstGraph load_graph(const WfstOptions& options, const AcousticModel& model);

/// The value of the option "boost" for a graph. Both are empty without the option.
struct WordBoosting {
  std::vector<float> costs;        // word_costs() with the scale
  std::vector<std::string> words;  // the file's words with a number above 0, whatever the scale
};

/// A notice on standard error counts the words that the graph lacks. Throws UserError.
WordBoosting load_boosting(const WfstOptions& options, const WfstGraph& graph);

}  // namespace rtfx
