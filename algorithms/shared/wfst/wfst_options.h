// Options of the decoders that search a decoding graph, and the graph that they name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "algorithms/nbest_risk.h"
#include "algorithms/shared/wfst/added_words.h"
#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/word_boosting.h"
#include "base/options.h"

namespace rtfx {

struct AcousticModel;

struct WfstOptions {
  std::filesystem::path graph;            // a file of `rtfx graph build`
  std::optional<AddedWordOptions> words;  // added to those of the graph
  double acoustic_scale = 1 / 0.55;
  double beam = 17;  // in scaled units
  int64_t max_active = 10000;
  int64_t nbest = 1;  // word sequences to return; the search keeps a lattice for more than 1
  std::optional<MbrOptions> mbr;
  double lattice_beam = 8;  // largest cost of a path above that of the best path
  std::optional<WordBoostOptions> boost;
  double blank_penalty = 0;          // subtracted from logits, see blank_penalty.h
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

/// Maps options.graph, and adds options.words in memory. Throws UserError, also if the graph has no
/// topology of CTC, and for words that cannot be added.
WfstGraph load_graph(const WfstOptions& options, const AcousticModel& model);

}  // namespace rtfx
