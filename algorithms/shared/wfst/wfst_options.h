// Options of the decoders that search a decoding graph, and the graph that they name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/word_boost.h"
#include "base/options.h"

namespace rtfx {

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
