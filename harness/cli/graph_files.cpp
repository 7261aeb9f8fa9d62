#include "harness/cli/graph_files.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

#include "algorithms/shared/wfst/graph_builder.h"
#include "algorithms/shared/wfst/import_graph.h"
#include "base/error.h"
#include "base/printable.h"
#include "models/formats/hub.h"
#include "models/load_checkpoint.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "models/tokenizers/sentencepiece.h"
#include "models/tokenizers/tokenizer_json.h"

namespace rtfx {

namespace {

constexpr double kMiB = 1 << 20;

void print_file(const std::filesystem::path& file, const WfstGraph& graph) {
  const GraphView& view = graph.view();
  fmt::print(
      "{}: topology {}, {} words, {} states, {} emitting and {} non-emitting arcs, {:.1f} MiB\n",
      printable(file.string()), graph.topology(), graph.words(), view.states, view.emitting_arcs,
      view.arc_count - view.emitting_arcs, static_cast<double>(graph.bytes()) / kMiB);
}

}  // namespace

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& given) {
  const std::filesystem::path path = find_checkpoint(given);
  const auto ending = path.extension();
  if (ending == ".nemo" || std::filesystem::is_directory(path))
    return load_checkpoint(path).tokenizer;
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in || bytes.empty()) {
    throw UserError(path.string(), "cannot be read",
                    "give a checkpoint, a SentencePiece .model, a vocab.txt or a tokenizer.json");
  }
  if (ending == ".txt") return wordpiece_tokenizer(bytes, path.string());
  if (ending == ".json") return tokenizer_json(bytes, -1, path.string());
  return sentencepiece_tokenizer(bytes, path.string());
}

int build_graph_file(const GraphOptions& options) {
  const auto tokenizer = load_tokenizer(options.tokenizer);
  const GraphSources sources{options.lexicon, options.lm,
                             parse_topology(options.topology, "--topology"),
                             options.drop_unspelled};
  fmt::print("{:<20} {:>10} {:>11} {:>8} {:>9}\n", "stage", "states", "arcs", "seconds",
             "peak MiB");
  const BuiltGraph built = build_graph(*tokenizer, sources, [](const GraphStage& stage) {
    fmt::print("{:<20} {:>10} {:>11} {:>8.2f} {:>9.0f}\n", stage.name, stage.states, stage.arcs,
               stage.seconds, static_cast<double>(stage.peak_bytes) / kMiB);
    std::fflush(stdout);
  });
  built.graph.write(options.output);
  if (built.dropped_words > 0) {
    fmt::print("left out: {} of the lexicon that cannot be spelled\n",
               counted(built.dropped_words, "line"));
  }
  if (built.unwanted_words > 0) {
    fmt::print("left out: {} of the lexicon that the language model lacks\n",
               counted(built.unwanted_words, "word"));
  }
  if (built.dropped_ngrams > 0) {
    fmt::print("left out: {} with a word that the lexicon lacks\n",
               counted(built.dropped_ngrams, "n-gram"));
  }
  print_file(options.output, built.graph);
  return kOk;
}

int import_graph_file(const GraphOptions& options) {
  std::optional<BlankLabel> blank;
  if (!options.blank.empty()) {
    blank = options.blank == "first"  ? BlankLabel::first
            : options.blank == "none" ? BlankLabel::none
                                      : BlankLabel::last;
  }
  const WfstGraph graph =
      import_graph(*load_tokenizer(options.tokenizer), options.openfst, options.words, blank);
  graph.write(options.output);
  print_file(options.output, graph);
  return kOk;
}

}  // namespace rtfx
