#include "algorithms/shared/wfst/wfst_options.h"

#include "algorithms/blank_penalty.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "base/error.h"
#include "models/acoustic_model.h"

namespace rtfx {

namespace {

/// Returns the options of all searches, followed by `more`.
OptionTable<WfstOptions> common_options_and(const std::vector<OptionField<WfstOptions>>& more) {
  OptionTable<WfstOptions> table{{
      option("graph", &WfstOptions::graph, "decoding graph, made by `rtfx graph build`"),
      option("words", &WfstOptions::words, "words and phrases that the graph lacks",
             added_word_options()),
      option("acoustic_scale", &WfstOptions::acoustic_scale,
             "factor of the acoustic log-probabilities; the default, 1 / 0.55, gives the graph a "
             "weight of 0.55",
             1e-3, 1e3),
      option("beam", &WfstOptions::beam, "costs above the best that are kept, in scaled units",
             1e-3, 1e9),
      option("max_active", &WfstOptions::max_active, "tokens that are expanded at a frame", 1,
             int64_t{1} << 30),
      option("nbest", &WfstOptions::nbest, "word sequences in the list of results", 1, 1000),
      mbr_option(&WfstOptions::mbr),
      option("lattice_beam", &WfstOptions::lattice_beam,
             "costs above the best path that the others of the list may have", 0, 1e6),
      option("boost", &WfstOptions::boost, "words that cost less, in all utterances or in some",
             boost_options()),
      blank_penalty_option(&WfstOptions::blank_penalty),
      skip_blank_option(&WfstOptions::skip_blank),
  }};
  table.fields.insert(table.fields.end(), more.begin(), more.end());
  return table;
}

}  // namespace

const OptionTable<WfstOptions>& gpu_wfst_options() {
  static const OptionTable<WfstOptions> table = common_options_and({
      option("loop", &WfstOptions::loop,
             "who drives the loop over frames: one kernel, the host with a kernel for each phase, "
             "the host with these as a recorded graph",
             {"persistent", "host", "replay"}),
      option("double_buffer", &WfstOptions::double_buffer,
             "with loop host or replay: search the next frame while the last one's tokens are "
             "copied to the host"),
  });
  return table;
}

const OptionTable<WfstOptions>& cpu_wfst_options() {
  static const OptionTable<WfstOptions> table = common_options_and({
      option("threads", &WfstOptions::threads, "at most so many of the program's threads; 0: all",
             0),
  });
  return table;
}

WfstGraph load_graph(const std::filesystem::path& path, const AcousticModel& model) {
  WfstGraph graph = WfstGraph::map(path);
  if (graph.view().columns != model.config.vocabulary + 1 ||
      (model.tokenizer && tokenizer_checksum(*model.tokenizer) != graph.tokenizer())) {
    throw UserError(path.string(), "was built for another tokenizer than the model's",
                    "build a graph with this model's tokenizer: `rtfx graph build`");
  }
  return graph;
}

WfstGraph load_graph(const WfstOptions& options, const AcousticModel& model) {
  WfstGraph graph = load_graph(options.graph, model);
  if (graph.topology() == topology_name(Topology::tokens)) {
    throw UserError(options.graph.string(),
                    "has the topology 'tokens' without blanks, which a CTC search needs",
                    "build it with --topology compact, or search it with transducer_wfst");
  }
  if (!options.words) return graph;
  if (!model.tokenizer) {
    throw UserError("words", "cannot be spelled without the model's tokenizer",
                    "use a checkpoint that holds one");
  }
  return with_phrases(graph, spelled_phrases(*options.words, *model.tokenizer),
                      options.graph.string());
}

}  // namespace rtfx
