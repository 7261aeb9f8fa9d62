#include "algorithms/shared/wfst/wfst_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "algorithms/blank_penalty.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"
#include "models/acoustic_model.h"

namespace rtfx {

const OptionTable<BoostOptions>& boost_options() {
  static const OptionTable<BoostOptions> table{{
      option("path", &BoostOptions::path, "lines of a word and how much less it costs"),
      option("scale", &BoostOptions::scale, "factor of the file's numbers", -1e6, 1e6),
  }};
  return table;
}

WordBoosts read_word_boosts(const std::filesystem::path& path) {
  WordBoosts boosts;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    constexpr std::string_view kSpace = " \t\r";
    const size_t word = line.find_first_not_of(kSpace);
    if (word == line.npos) continue;
    line = line.substr(word, line.find_last_not_of(kSpace) + 1 - word);
    const size_t word_end = std::min(line.find_first_of(kSpace), line.size());
    const size_t number = std::min(line.find_first_not_of(kSpace, word_end), line.size());
    float boost = 0;
    const auto [end, error] =
        std::from_chars(line.data() + number, line.data() + line.size(), boost);
    if (error != std::errc() || end != line.data() + line.size() || !std::isfinite(boost)) {
      throw UserError(fmt::format("{}:{}", path.string(), lines.number()),
                      fmt::format("'{}' is no word and a number", line),
                      "write a line such as `word 4.5` for each word");
    }
    boosts[std::string(line.substr(0, word_end))] = boost;
  }
  return boosts;
}

std::vector<float> word_costs(const WfstGraph& graph, const WordBoosts& boosts, int64_t* unknown) {
  std::vector<float> costs(static_cast<size_t>(graph.words()) + 1);
  int64_t known = 0;
  for (int32_t id = 1; id <= graph.words(); ++id) {
    const auto found = boosts.find(graph.word(id));
    if (found == boosts.end()) continue;
    costs[static_cast<size_t>(id)] = -found->second;
    ++known;
  }
  if (unknown != nullptr) *unknown = static_cast<int64_t>(boosts.size()) - known;
  return costs;
}

namespace {

/// Returns the options of all searches, followed by `more`.
OptionTable<WfstOptions> common_options_and(const std::vector<OptionField<WfstOptions>>& more) {
  OptionTable<WfstOptions> table{{
      option("graph", &WfstOptions::graph, "decoding graph, made by `rtfx graph build`"),
      option("acoustic_scale", &WfstOptions::acoustic_scale,
             "factor of log-probabilities; the graph's costs stay as they are", 1e-3, 1e3),
      option("beam", &WfstOptions::beam, "costs above the best that are kept, in scaled units",
             1e-3, 1e9),
      option("max_active", &WfstOptions::max_active, "tokens that are expanded at a frame", 1,
             int64_t{1} << 30),
      option("nbest", &WfstOptions::nbest, "word sequences in the list of results", 1, 1000),
      mbr_option(&WfstOptions::mbr),
      option("lattice_beam", &WfstOptions::lattice_beam,
             "costs above the best path that the others of the list may have", 0, 1e6),
      option("boost", &WfstOptions::boost, "words that all utterances favour", boost_options()),
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
  return graph;
}

WordBoosting load_boosting(const WfstOptions& options, const WfstGraph& graph) {
  if (!options.boost) return {};
  WordBoosting boosting;
  WordBoosts boosts = read_word_boosts(options.boost->path);
  for (auto& [word, boost] : boosts) {
    if (boost > 0) boosting.words.push_back(word);
    boost *= static_cast<float>(options.boost->scale);
  }
  int64_t unknown = 0;
  boosting.costs = word_costs(graph, boosts, &unknown);
  if (unknown > 0) {
    fmt::print(stderr, "rtfx: notice: {}: {} of {} words are not in the graph\n",
               printable(options.boost->path.string()), unknown, boosts.size());
  }
  return boosting;
}

}  // namespace rtfx
