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
      option("graph", &WfstOptions::graph,
             "Decoding graph (TLG) of `rtfx graph build` or `rtfx graph import`."),
      option("words", &WfstOptions::words,
             "Words and phrases that are added to those of the graph.", added_word_options()),
      option("acoustic_scale", &WfstOptions::acoustic_scale,
             "Factor of the acoustic log-probabilities. The default, 1 / 0.55, gives the costs of "
             "the graph a weight of 0.55.",
             1e-3, 1e3),
      option("beam", &WfstOptions::beam,
             "Beam width: at each frame, paths are dropped whose cost exceeds the least cost by "
             "this value or more. Costs include `acoustic_scale`.",
             1e-3, 1e9),
      option("max_active", &WfstOptions::max_active,
             "Largest number of graph states that are expanded at a frame. Those with the least "
             "costs are chosen.",
             1, int64_t{1} << 30),
      option("nbest", &WfstOptions::nbest,
             "Largest number of word sequences to return for each utterance. A value above 1 gives "
             "an n-best list. At the end of a stream, its whole utterance is then searched again.",
             1, 1000),
      mbr_option(&WfstOptions::mbr),
      option("lattice_beam", &WfstOptions::lattice_beam,
             "Entries of the n-best list may cost at most this much more than the best one. Costs "
             "are those of `beam`.",
             0, 1e6),
      option("boost", &WfstOptions::boost,
             "Words and phrases of the graph that get a lower cost (word boosting).",
             word_boost_options()),
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
             "Execution of the loop over frames. `persistent`: one kernel runs it. `host`: the CPU "
             "launches a kernel for each phase of a frame. `replay`: it launches them as one "
             "recorded CUDA graph.",
             {"persistent", "host", "replay"}),
      option("double_buffer", &WfstOptions::double_buffer,
             "If `loop` is `host` or `replay`, search the next frame while the history of the last "
             "one is copied to the CPU. `false`: wait for each copy."),
  });
  return table;
}

const OptionTable<WfstOptions>& cpu_wfst_options() {
  static const OptionTable<WfstOptions> table = common_options_and({
      option("threads", &WfstOptions::threads,
             "Largest number of CPU threads that search. 0: all threads of the program.", 0),
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
